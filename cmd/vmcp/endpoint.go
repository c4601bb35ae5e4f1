package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/proxy"
)

const (
	defaultURL = "http://127.0.0.1:4483/mcp"
	// settleTime is how long a command waits for the backends of a configuration
	// before it works with those that are there.
	settleTime = 15 * time.Second
)

// target is where a client command finds its tools.
type target struct{ url, config string }

func (t *target) register(c *cobra.Command) {
	c.Flags().StringVar(&t.url, "url", "", "the endpoint to use (default where ./vmcp.yaml listens, else "+defaultURL+")")
	c.Flags().StringVar(&t.config, "config", "", "a configuration file to use instead of a running endpoint")
	c.MarkFlagsMutuallyExclusive("url", "config")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
}

// endpoint is a connection to a running vmcp, or to one inside this process.
type endpoint struct {
	*mcp.ClientSession
	recorder *recorder
	status   func(context.Context) (proxy.Status, error)
	release  func()
}

// Close ends the session and, for a proxy of our own, the proxy and its backends.
func (e *endpoint) Close() {
	if e.ClientSession != nil {
		_ = e.ClientSession.Close() // the results are in
	}
	e.release()
}

// open connects to the target. A client that is more than a reader brings its options.
func (a *app) open(ctx context.Context, t target, options func(*endpoint) *mcp.ClientOptions) (*endpoint, error) {
	if options == nil {
		options = plainClient
	}
	if t.config != "" {
		return a.openConfig(ctx, t.config, options)
	}
	if t.url == "" {
		t.url = configuredURL(defaultFile)
	}
	u, err := url.Parse(t.url)
	if err != nil || u.Host == "" {
		return nil, usageError("--url: want a URL such as " + defaultURL)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/mcp"
	}
	e := &endpoint{recorder: &recorder{base: http.DefaultTransport}, release: func() {}}
	e.status = func(ctx context.Context) (proxy.Status, error) { return e.fetchStatus(ctx, u) }
	if err := e.connect(ctx, u.String(), options); err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			err = &hintError{fmt.Errorf("%s: nothing is listening there", u), `start it with "vmcp serve", or name a configuration with --config`}
		}
		return nil, err
	}
	return e, nil
}

// openConfig runs a configuration inside this process and goes through its HTTP
// edge, as any client would.
func (a *app) openConfig(ctx context.Context, file string, options func(*endpoint) *mcp.ClientOptions) (*endpoint, error) {
	cfg, err := a.load(file)
	if err != nil {
		return nil, err
	}
	p, err := proxy.New(proxy.Options{Log: a.log.logger(a.err, slog.LevelError), Version: buildVersion()})
	if err != nil {
		return nil, err
	}
	inside := newInside(p.Handler())
	e := &endpoint{
		recorder: &recorder{base: inside.transport()},
		status:   func(context.Context) (proxy.Status, error) { return p.Status(), nil },
		release:  func() { inside.close(); _ = p.Close() }, // what a backend says at its end is logged
	}
	if err := p.Apply(ctx, cfg); err != nil {
		e.Close()
		return nil, err
	}
	a.settle(ctx, p, settleTime)
	if err := e.connect(ctx, insideURL, options); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// plainClient only asks: nobody has to call it back.
func plainClient(*endpoint) *mcp.ClientOptions {
	return &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
}

func (e *endpoint) connect(ctx context.Context, url string, options func(*endpoint) *mcp.ClientOptions) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "vmcp", Version: buildVersion()}, options(e))
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: e.recorder}, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	e.ClientSession = session
	return nil
}

// configuredURL is where the configuration of this folder is served, if there is one
// that says so. The rest of the file is not looked at: it may need an environment that
// only the server has.
func configuredURL(file string) string {
	var said struct {
		Listen string `json:"listen"`
	}
	data, err := os.ReadFile(file)
	if err != nil || yaml.Unmarshal(data, &said) != nil {
		return defaultURL
	}
	host, port, err := net.SplitHostPort(said.Listen)
	if err != nil || port == "0" {
		return defaultURL
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // served everywhere, so here
	}
	return "http://" + net.JoinHostPort(host, port) + "/mcp"
}

// fetchStatus asks a running vmcp where its tools come from. Another server has
// no such page; then there is no origin to show.
func (e *endpoint) fetchStatus(ctx context.Context, mcpURL *url.URL) (proxy.Status, error) {
	page := *mcpURL
	page.Path, page.RawQuery = "/readyz", "tools"
	var s proxy.Status
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page.String(), nil)
	if err != nil {
		return s, err
	}
	resp, err := e.recorder.base.RoundTrip(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// settle waits until every backend is connected or down, but not for longer than limit.
func (a *app) settle(ctx context.Context, p *proxy.Proxy, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if isTerminal(a.err) {
		slow := time.AfterFunc(time.Second, func() { a.say("waiting for the backends") })
		defer slow.Stop()
	}
	_ = p.Settled(ctx) // the status shows who is missing
}
