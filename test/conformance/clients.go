package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vmcp-dev/vmcp/test/rig"
)

// The authorization scenarios of the suite of clients: vmcp is the client of the suite's
// servers, driven by the command in oauthclient, and has to pass every check that the SDK's client
// passes.

// clientRuns are the runs of the suite: its suite auth, and the scenarios that are not in
// that.
var clientRuns = []struct {
	name string
	args []string
}{
	{"2026-07-28", []string{"--suite", "auth", "--spec-version", "2026-07-28"}},
	{"2025-11-25", []string{"--suite", "auth", "--spec-version", "2025-11-25"}},
	{"authorization-server-migration", nil},
	{"iss-normalized", nil},
	{"iss-not-advertised", nil},
	{"iss-supported", nil},
	{"iss-supported-missing", nil},
	{"iss-unexpected", nil},
	{"iss-wrong-issuer", nil},
	{"metadata-issuer-mismatch", nil},
	{"offline-access-not-supported", nil},
	{"offline-access-scope", nil},
	{"resource-mismatch", nil},
}

// sideBySide is the number of concurrent runs: most of their time they wait.
const sideBySide = 3

// leastClients is the number of scenarios that the SDK's client passes: fewer mean that the suite or the client
// has changed.
const leastClients = 39

// runClients runs the suite with both clients and reports whether vmcp passes every check that the SDK's client passes.
func (h *harness) runClients(ctx context.Context) (bool, error) {
	sdk, err := rig.FixtureClient(ctx)
	if err != nil {
		return false, err
	}
	ours := filepath.Join(h.work, "oauthclient")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", ours, "./test/conformance/oauthclient").CombinedOutput(); err != nil {
		return false, fmt.Errorf("build oauthclient: %w\n%s", err, out)
	}
	theirs, err := h.runClient(ctx, "sdk", sdk)
	if err != nil {
		return false, err
	}
	if n := theirs.passed(); n < leastClients {
		return false, fmt.Errorf("the SDK's client passes %d scenarios, want %d or more", n, leastClients)
	}
	through, err := h.runClient(ctx, "vmcp", ours)
	if err != nil {
		return false, err
	}
	return h.reportClients(theirs, through), nil
}

// runClient runs all clientRuns with one client.
func (h *harness) runClient(ctx context.Context, name, command string) (result, error) {
	began := time.Now()
	results := make([]result, len(clientRuns))
	g, running := errgroup.WithContext(ctx)
	g.SetLimit(sideBySide)
	for i, run := range clientRuns {
		args := run.args
		if args == nil {
			args = []string{"--scenario", "auth/" + run.name, "--spec-version", "2026-07-28"}
		}
		g.Go(func() (err error) {
			results[i], err = h.runClientSuite(running, filepath.Join(h.work, "client-"+name+"-"+run.name), command, args)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := result{}
	for i, run := range clientRuns {
		for scenario, checks := range results[i] {
			if run.args != nil {
				scenario = run.name + " " + scenario
			}
			all[scenario] = checks
		}
	}
	fmt.Fprintf(h.out, "suite auth with %-5s as the client %3d scenarios pass, %d ran, %.1fs\n", name, all.passed(), len(all), time.Since(began).Seconds())
	return all, nil
}

func (h *harness) runClientSuite(ctx context.Context, dir, command string, args []string) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, suiteDeadline)
	defer cancel()
	args = append([]string{h.pkgs.Path("conformance-alpha/dist/index.js"), "client", "--command", command, "-o", dir}, args...)
	var printed bytes.Buffer
	cmd := exec.CommandContext(ctx, h.pkgs.Node(), args...)
	cmd.Env = append(os.Environ(), rig.BinaryEnv+"="+h.vmcp)
	cmd.Stdout = io.MultiWriter(&printed, h.verbose)
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = time.Second
	runErr := cmd.Run() // the results have more details than its exit status
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: still running after %v:\n%s", strings.Join(args, " "), suiteDeadline, tail(printed.String(), 20))
	}
	if err := os.WriteFile(dir+".log", printed.Bytes(), 0o644); err != nil {
		return nil, err
	}
	r, err := readResults(filepath.Join(dir, "auth"))
	if err == nil && len(r) == 0 {
		err = fmt.Errorf("%s: no results: %v\n%s", strings.Join(args, " "), runErr, tail(printed.String(), 20))
	}
	return r, err
}

// reportClients prints a table of the checks that succeed, and those that only the SDK's client passes.
func (h *harness) reportClients(sdk, ours result) bool {
	w := tabwriter.NewWriter(h.out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "\nscenario\tSDK\tvmcp\n")
	ok := true
	for _, name := range slices.Sorted(maps.Keys(sdk)) {
		verdict := ""
		if sdk[name].passed() && !ours[name].passed() {
			ok, verdict = false, "\tworse"
		}
		fmt.Fprintf(w, "%s\t%s\t%s%s\n", name, sdk[name].summary(), ours[name].summary(), verdict)
	}
	w.Flush()
	for name, s := range ours {
		for _, c := range s.good("FAILURE", "WARNING") {
			fmt.Fprintf(h.out, "  vmcp, %s: %s: %s: %s %s\n", name, c.ID, c.Status, c.Message, c.details())
		}
	}
	return ok
}
