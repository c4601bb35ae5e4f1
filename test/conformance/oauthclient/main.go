// Command oauthclient is a client for the conformance suite of clients that connects through
// vmcp: it starts a vmcp whose backend is the given URL, makes the login without a
// browser, lists the tools and calls each of them through the proxy.
//
//	VMCP_BINARY=vmcp conformance client --command oauthclient --suite auth
//
// Where a call needs another login, or one with more scopes, the error has the command for it. The
// client runs it, and retries the call once.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/test/rig"
)

// key is the key of the token store, in base64. It is no secret: the store is deleted.
const key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: oauthclient URL")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "oauthclient:", err)
		os.Exit(1)
	}
}

// client is one vmcp in front of the suite's server.
type client struct {
	vmcp, config string
	env          []string
}

func run(ctx context.Context, url string) error {
	dir, err := os.MkdirTemp("", "oauthclient")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := &client{vmcp: os.Getenv(rig.BinaryEnv), config: filepath.Join(dir, "vmcp.yaml"), env: []string{"VMCP_KEY=" + key}}
	if c.vmcp == "" {
		return errors.New("the environment variable " + rig.BinaryEnv + " has to name the vmcp to test")
	}
	if err := c.configure(url); err != nil {
		return err
	}
	if err := c.login(ctx); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	p, addr, err := rig.Serve(ctx, log, c.vmcp, c.config, c.env...)
	if err != nil {
		return err
	}
	defer p.Stop()
	err = c.use(ctx, addr)
	if text, _ := os.ReadFile(log.Name()); err != nil {
		fmt.Fprintf(os.Stderr, "%s", text)
	}
	return err
}

// configure writes the configuration. The suite passes the data of a registered client
// in the environment.
func (c *client) configure(url string) error {
	var told struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &told); err != nil {
			return err
		}
	}
	oauth := map[string]any{"clientMetadataUrl": "https://conformance-test.local/client-metadata.json"}
	if told.ID != "" {
		oauth["clientId"] = told.ID
	}
	if told.Secret != "" {
		oauth["clientSecretEnv"] = "CLIENT_SECRET"
		c.env = append(c.env, "CLIENT_SECRET="+told.Secret)
	}
	text, err := json.Marshal(map[string]any{
		"name":         "conformance",
		"backends":     []any{map[string]any{"name": "suite", "url": url}},
		"outgoingAuth": map[string]any{"backends": map[string]any{"suite": map[string]any{"type": "oauth", "oauth": oauth}}},
		"tokenStore":   map[string]any{"file": "tokens.db", "keyEnv": "VMCP_KEY"},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(c.config, text, 0o600)
}

// login runs vmcp login and follows its URL in place of a browser.
func (c *client) login(ctx context.Context, more ...string) error {
	cmd := exec.CommandContext(ctx, c.vmcp, append([]string{"login", "suite", "--no-browser", "--config", c.config}, more...)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), c.env...), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var page string
	if _, err := fmt.Fscanln(out, &page); err == nil {
		if err := browse(ctx, page); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return cmd.Wait()
}

// browse opens a page and follows its redirects.
func browse(ctx context.Context, page string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// use lists the tools and calls each.
func (c *client) use(ctx context.Context, addr string) error {
	if err := rig.AwaitReady(ctx, addr); err != nil {
		return err
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "oauthclient", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: "http://" + addr + "/mcp"}, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	list, err := s.ListTools(ctx, nil)
	if err == nil && len(list.Tools) == 0 {
		list, err = c.listAgain(ctx, s, addr)
	}
	if err != nil {
		return err
	}
	for _, tool := range list.Tools {
		if err := c.call(ctx, s, tool.Name); err != nil {
			return err
		}
	}
	return nil
}

// listAgain makes the login that the backend requires and lists the tools again.
func (c *client) listAgain(ctx context.Context, s *mcp.ClientSession, addr string) (list *mcp.ListToolsResult, err error) {
	resp, err := http.Get("http://" + addr + "/readyz")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if err := c.loginFor(ctx, errors.New(string(text))); err != nil {
		return nil, err
	}
	err = rig.Poll(ctx, "tools", func() (bool, error) {
		list, err = s.ListTools(ctx, nil)
		return err == nil && len(list.Tools) > 0, err
	})
	return list, err
}

// call calls a tool; if the call needs a login, it makes the login and calls the tool again.
func (c *client) call(ctx context.Context, s *mcp.ClientSession, name string) error {
	err := callOnce(ctx, s, name)
	if err != nil {
		if err = c.loginFor(ctx, err); err == nil {
			err = callOnce(ctx, s, name)
		}
	}
	return err
}

// wanted matches the login command in an error.
var wanted = regexp.MustCompile(`vmcp login suite(?: --scope "([^"]+)")?`)

// loginFor makes the login whose command an error names. It returns any other error.
func (c *client) loginFor(ctx context.Context, err error) error {
	command := wanted.FindStringSubmatch(strings.ReplaceAll(err.Error(), `\"`, `"`))
	switch {
	case command == nil:
		return err
	case command[1] == "":
		return c.login(ctx)
	}
	return c.login(ctx, "--scope", command[1])
}

func callOnce(ctx context.Context, s *mcp.ClientSession, name string) error {
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: map[string]any{}})
	if err == nil && result.IsError {
		text, _ := json.Marshal(result.Content)
		err = errors.New(string(text))
	}
	return err
}
