package setup

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// target is the endpoint as entries name it.
type target struct {
	url       string
	guarded   bool   // the endpoint asks for a token
	tokenFile string // the file with the token; "" if it is not known
	program   string // the path of vmcp, for clients that start their servers
	config    string // a configuration that such a client shall serve instead; "" for none
	profile   string // of that configuration
}

// dialect is how the configuration of a client lists its servers.
type dialect struct {
	shape string
	value func(t target) []byte // returns the value of the entry
}

var dialects = map[string]dialect{
	"claude":         {"mcpServers", overHTTP("http", "url", "${VMCP_TOKEN}")},
	"claude-desktop": {"mcpServers", started},
	"cursor":         {"mcpServers", overHTTP("", "url", "${env:VMCP_TOKEN}")},
	"vscode":         {"servers", overHTTP("http", "url", "${env:VMCP_TOKEN}")},
	"windsurf":       {"mcpServers", overHTTP("", "serverUrl", "${env:VMCP_TOKEN}")},
	"gemini":         {"mcpServers", overHTTP("", "httpUrl", "${VMCP_TOKEN}")},
	"zed":            {"context_servers", zed},
	"codex":          {clients.TOML, codex},
	"opencode":       {"mcp", overHTTP("remote", "url", "{env:VMCP_TOKEN}")},
}

// names returns the clients in the order in which they are shown.
func names() []string {
	return []string{"claude", "claude-desktop", "cursor", "vscode", "windsurf", "gemini", "zed", "codex", "opencode"}
}

// overHTTP writes entries with the URL under the client's key for it, and with a type if kind is not "".
// The entry names a variable of the client's environment, in the client's syntax, that has the token.
func overHTTP(kind, key, variable string) func(target) []byte {
	return func(t target) []byte {
		o := new(jsonscan.Object)
		if kind != "" {
			o.Text("type", kind)
		}
		o.Text(key, t.url)
		if t.guarded {
			o.Raw("headers", new(jsonscan.Object).Text("Authorization", "Bearer "+variable).JSON())
		}
		return o.JSON()
	}
}

// zed writes an entry for Zed, which does not expand variables: where a token is needed, it starts vmcp, which reads the token.
func zed(t target) []byte {
	if t.guarded {
		return started(t)
	}
	return overHTTP("", "url", "")(t)
}

func codex(t target) []byte {
	lines := fmt.Sprintf("url = %q\n", t.url)
	if t.guarded {
		lines += "bearer_token_env_var = \"VMCP_TOKEN\"\n"
	}
	return []byte(lines)
}

// started is the entry of a client that starts its servers as processes.
func started(t target) []byte {
	args := []string{"serve", "--stdio", "--url", t.url}
	switch {
	case t.config != "":
		args = []string{"serve", "--stdio", "--config", t.config}
		if t.profile != "" {
			args = append(args, "--profile", t.profile)
		}
	case t.guarded && t.tokenFile != "":
		args = append(args, "--token-file", t.tokenFile)
	}
	list, _ := json.Marshal(args) // strings can always be encoded
	return new(jsonscan.Object).Text("command", t.program).Raw("args", list).JSON()
}

// servedBy reports whether the entries of all of these clients start a process that serves the configuration itself, so
// that no endpoint has to be running.
func (t target) servedBy(clients []string) bool {
	return t.config != "" && !slices.ContainsFunc(clients, func(c string) bool {
		return c != "claude-desktop" && (c != "zed" || !t.guarded)
	})
}

// note is what the user has to do for the client to use its entry.
func (t target) note(client string) string {
	starts := client == "claude-desktop" || client == "zed"
	if !t.guarded || t.servedBy([]string{client}) || starts && t.tokenFile != "" {
		return ""
	}
	return fmt.Sprintf("the endpoint asks for a token: %s needs it as VMCP_TOKEN in its environment", client)
}
