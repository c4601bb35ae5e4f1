package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/vmcp-dev/vmcp/test/rig"
)

// suite is one release of the conformance suite with its arguments.
type suite struct {
	name      string
	pkg       string   // in the npm folder
	args      []string // for all scenarios
	single    []string // for one scenario
	scenarios int      // number of scenarios that the fixture server passes directly
	stateless bool     // mode of the fixture server for that
}

func (s suite) label() string { return s.name }

var suites = []suite{
	{name: "0.1.16", pkg: "conformance-stable", args: []string{"--suite", "all"}, scenarios: 32},
	{name: "2025-11-25", pkg: "conformance-alpha", args: []string{"--requirements", "2025-11-25"},
		single: []string{"--spec-version", "2025-11-25"}, scenarios: 33},
	{name: "2026-07-28", pkg: "conformance-alpha", args: []string{"--requirements", "2026-07-28"},
		single: []string{"--spec-version", "2026-07-28"}, scenarios: 40, stateless: true},
}

// backend is a way to connect the proxy with the fixture server.
type backend struct {
	name  string
	stdio bool
	// stateless runs the fixture server with 2026-07-28 over HTTP, else with older revisions and sessions.
	stateless bool
	access    access // credential that the proxy requires; nil for none
	like      string // name of the backend that differs only in access; "" for none
}

func (b backend) label() string { return b.name }

var backends = []backend{
	{name: "stdio", stdio: true},
	{name: "http"},
	{name: "stateless", stateless: true},
	{name: "token", like: "http", access: staticToken},
	{name: "jwt", like: "stateless", stateless: true, access: signedToken},
}

// runDirect runs a suite against the fixture server without a proxy.
func (h *harness) runDirect(ctx context.Context, s suite) (result, error) {
	p, addr, err := h.startFixture(ctx, "direct-"+s.name, s.stateless)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	return h.runSuite(ctx, s, "direct", addr)
}

// runProxied runs every suite against one proxy in front of one backend.
func (h *harness) runProxied(ctx context.Context, b backend) (map[string]result, error) {
	if h.front != "" {
		return h.runSuites(ctx, b, h.front, nil)
	}
	entry := fmt.Sprintf("  - name: fixture\n    command: %q\n", h.fixture)
	if !b.stdio {
		p, addr, err := h.startFixture(ctx, b.name, b.stateless)
		if err != nil {
			return nil, err
		}
		defer p.Stop()
		entry = fmt.Sprintf("  - name: fixture\n    url: http://%s/mcp\n", addr)
	}
	var env []string // of the suites
	if b.access != nil {
		asked, token, err := b.access(h)
		if err != nil {
			return nil, err
		}
		entry += asked
		if env, err = h.withToken(token); err != nil {
			return nil, err
		}
	}
	p, addr, err := h.startProxy(ctx, b.name, entry)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	if b.access != nil {
		if err := refusesStrangers(ctx, addr); err != nil {
			return nil, err
		}
	}
	return h.runSuites(ctx, b, addr, env)
}

// runSuites runs every suite against an address.
func (h *harness) runSuites(ctx context.Context, b backend, addr string, env []string) (map[string]result, error) {
	results := map[string]result{}
	for _, s := range h.suites {
		r, err := h.runSuite(ctx, s, b.name, addr, env...)
		if err != nil {
			return nil, err
		}
		results[s.name] = r
	}
	return results, nil
}

func (h *harness) startFixture(ctx context.Context, name string, stateless bool) (*rig.Process, string, error) {
	port, err := rig.Port()
	if err != nil {
		return nil, "", err
	}
	log, err := h.log("fixture-" + name)
	if err != nil {
		return nil, "", err
	}
	defer log.Close()
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := rig.Start(log, h.fixture, "-http", addr, fmt.Sprintf("-stateless=%t", stateless))
	if err != nil {
		return nil, "", err
	}
	return p, addr, p.AwaitHTTP(ctx, "http://"+addr+"/mcp")
}

// startProxy serves one backend with the configuration entry: with a single backend its names are not prefixed.
func (h *harness) startProxy(ctx context.Context, name, entry string) (*rig.Process, string, error) {
	config := filepath.Join(h.work, name+".yaml")
	if err := os.WriteFile(config, []byte("name: conformance\nbackends:\n"+entry), 0o644); err != nil {
		return nil, "", err
	}
	log, err := h.log("vmcp-" + name)
	if err != nil {
		return nil, "", err
	}
	defer log.Close()
	p, addr, err := rig.Serve(ctx, log, h.vmcp, config)
	if err != nil {
		return nil, "", fmt.Errorf("%w: see %s", err, log.Name())
	}
	ready, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := rig.AwaitReady(ready, addr); err != nil {
		_ = p.Stop()
		return nil, "", fmt.Errorf("%w: see %s", err, log.Name())
	}
	return p, addr, nil
}

func (h *harness) log(name string) (*os.File, error) {
	return os.Create(filepath.Join(h.work, name+".log"))
}
