// Command conformance runs the official MCP conformance suites against the SDK's
// fixture server, directly and through `vmcp serve`, and fails when a scenario that
// passes directly does not pass through the proxy.
//
//	go run ./test/conformance                                        # everything
//	go run ./test/conformance -suite 2026-07-28 -backend stdio       # one cell
//	go run ./test/conformance -backend http -scenario caching -v     # one scenario
//
// The suites are 0.1.16 (the stable release), and the requirements 2025-11-25 and
// 2026-07-28 of 0.2.0-alpha.12. The fixture server is behind the proxy over stdio,
// http (with sessions) and stateless (2026-07-28 only); once more with sessions behind a
// proxy that requires a static token (token), and stateless behind one that requires a JWT
// (jwt). The suites are clients of every revision. There is no list of expected failures.
//
//	go run ./test/conformance -backend http -front 127.0.0.1:4483
//
// runs the suites against a running endpoint, such as replicas behind a load balancer, with a fixture server with sessions as its backend.
//
//	go run ./test/conformance -clients
//
// runs the authorization scenarios of the suite of clients, with the SDK's client and with
// vmcp as the client, and fails when vmcp does not pass a check that the SDK's client passes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/test/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	ok, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
	}
	if err != nil || !ok {
		cancel()
		os.Exit(1)
	}
}

// harness is one run of the command: its options and its state.
type harness struct {
	suites   []suite
	backends []backend
	scenario string // "": all
	clients  bool   // the suite of clients instead
	front    string // address of a running endpoint with one of the backends; "": an endpoint is started for each

	out     io.Writer
	verbose io.Writer // for the output of the suite and the logs of proxy and fixture server
	work    string
	pkgs    *rig.Packages
	fixture string
	vmcp    string
}

// run parses the flags, runs the cells and reports whether all checks that pass directly pass through the proxy.
func run(ctx context.Context, args []string, out io.Writer) (bool, error) {
	h := &harness{out: out, verbose: io.Discard}
	if err := h.parse(args); err != nil {
		return false, err
	}
	work, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return false, err
	}
	h.work = work
	if err := h.prepare(ctx); err != nil {
		return false, err
	}
	all := h.runAll
	if h.clients {
		all = h.runClients
	}
	ok, err := all(ctx)
	if err != nil || !ok {
		fmt.Fprintln(out, "logs of proxy and fixture server, results of every check:", work)
		return ok, err
	}
	return true, os.RemoveAll(work)
}

func (h *harness) parse(args []string) error {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	suiteName := flags.String("suite", "", "run one suite: "+strings.Join(names(suites), ", "))
	backendName := flags.String("backend", "", "run with one backend behind the proxy: "+strings.Join(names(backends), ", ")+"; direct for none")
	flags.StringVar(&h.scenario, "scenario", "", "run one scenario, in every suite that has it")
	flags.BoolVar(&h.clients, "clients", false, "run the suite of clients, with vmcp as the client")
	flags.StringVar(&h.front, "front", "", "with -backend: `address` of a running endpoint with such a fixture server as its backend, instead of starting a vmcp")
	verbose := flags.Bool("v", false, "print the output of the suite, the proxy and the fixture server")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *verbose {
		h.verbose = os.Stderr
	}
	var err error
	if h.suites, err = pick(suites, *suiteName); err != nil {
		return err
	}
	if h.front != "" && *backendName == "" {
		return errors.New("-front: want -backend, the kind of backend behind the endpoint")
	}
	if *backendName != "direct" {
		h.backends, err = pick(backends, *backendName)
	}
	return err
}

type named interface{ label() string }

func names[T named](all []T) []string {
	var out []string
	for _, x := range all {
		out = append(out, x.label())
	}
	return out
}

// pick returns the elements called name, or all when name is empty.
func pick[T named](all []T, name string) ([]T, error) {
	i := slices.Index(names(all), name)
	switch {
	case name == "":
		return all, nil
	case i < 0:
		return nil, fmt.Errorf("no %q, there are: %s", name, strings.Join(names(all), ", "))
	}
	return all[i : i+1], nil
}

func (h *harness) prepare(ctx context.Context) (err error) {
	if h.pkgs, err = rig.Install(ctx); err != nil {
		return err
	}
	if h.fixture, err = rig.Fixture(ctx); err != nil {
		return err
	}
	if h.clients || len(h.backends) > 0 {
		h.vmcp, err = rig.Build(ctx, h.work)
	}
	return err
}

// runAll runs every suite directly, then through a proxy for each backend.
func (h *harness) runAll(ctx context.Context) (bool, error) {
	direct := map[string]result{}
	for _, s := range h.suites {
		r, err := h.runDirect(ctx, s)
		if err != nil {
			return false, err
		}
		direct[s.name] = r
		if h.scenario == "" && r.passed() != s.scenarios {
			return false, fmt.Errorf("suite %s directly: %d scenarios pass, want %d: the fixture server or the suite is not what this test was written for", s.name, r.passed(), s.scenarios)
		}
	}
	proxied := map[string]map[string]result{}
	for _, b := range h.backends {
		r, err := h.runProxied(ctx, b)
		if err != nil {
			return false, fmt.Errorf("backend %s: %w", b.name, err)
		}
		proxied[b.name] = r
	}
	return h.report(direct, proxied), nil
}
