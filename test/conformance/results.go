package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// suiteDeadline is the time after which a suite that hangs is killed; suites take seconds.
const suiteDeadline = 4 * time.Minute

// check is one assertion of a scenario, as the suite writes it to checks.json.
type check struct {
	ID      string          `json:"id"`
	Status  string          `json:"status"` // SUCCESS, FAILURE, WARNING, SKIPPED, INFO
	Message string          `json:"errorMessage"`
	Details json.RawMessage `json:"details"`
}

// notReached is the outcome of a check that a scenario did not reach.
const notReached = "not reached"

// scenario is the outcome of one scenario.
type scenario []check

// result is the outcome of one suite, by scenario.
type result map[string]scenario

// passed counts the scenarios that pass.
func (r result) passed() int {
	n := 0
	for _, s := range r {
		if s.passed() {
			n++
		}
	}
	return n
}

// succeeded counts the checks that succeed.
func (s scenario) succeeded() int { return len(s.good("SUCCESS")) }

// good returns the checks with one of these outcomes.
func (s scenario) good(outcomes ...string) []check {
	return slices.DeleteFunc(slices.Clone(s), func(c check) bool { return !slices.Contains(outcomes, c.Status) })
}

// passed reports, as the suite does, whether no check failed and not all were skipped.
func (s scenario) passed() bool {
	return len(s) > len(s.good("SKIPPED")) && len(s.good("FAILURE")) == 0
}

// lost returns the checks that s passes and other does not: of a scenario that fails,
// every such check, of one that passes those that are only a warning now.
// A scenario that passes may leave out checks that do not apply to its responses.
func (s scenario) lost(other scenario) []check {
	lost := other.missing(s.good("SUCCESS"), other.good("SUCCESS"))
	if !other.passed() {
		return lost
	}
	return slices.DeleteFunc(lost, func(c check) bool { return c.Status == notReached || c.Status == "INFO" })
}

// missing returns the checks of want that have does not have, with their outcomes in s.
func (s scenario) missing(want, have []check) []check {
	left := map[string]int{}
	for _, c := range have {
		left[c.ID]++
	}
	var missing []check
	for _, c := range want {
		if left[c.ID]--; left[c.ID] < 0 {
			missing = append(missing, s.find(c.ID))
		}
	}
	return missing
}

// find returns the check with this id, one that did not succeed if there are several.
func (s scenario) find(id string) check {
	for _, c := range s {
		if c.ID == id && c.Status != "SUCCESS" {
			return c
		}
	}
	return check{ID: id, Status: notReached}
}

// runSuite runs a suite against an address, with env added to its environment, and reads its
// results.
func (h *harness) runSuite(ctx context.Context, s suite, cell, addr string, env ...string) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, suiteDeadline)
	defer cancel()
	dir := filepath.Join(h.work, "results-"+cell+"-"+s.name)
	args := []string{h.pkgs.Path(s.pkg + "/dist/index.js"), "server", "--url", "http://" + addr + "/mcp", "-o", dir}
	if h.scenario == "" {
		args = append(args, s.args...)
	} else {
		args = append(append(args, "--scenario", h.scenario, "--verbose"), s.single...)
	}
	var printed bytes.Buffer
	cmd := exec.CommandContext(ctx, h.pkgs.Node(), args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout = io.MultiWriter(&printed, h.verbose)
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = time.Second
	began := time.Now()
	runErr := cmd.Run() // the results have more details than its exit status
	if err := os.WriteFile(dir+".log", printed.Bytes(), 0o644); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("suite %s against %s: still running after %v:\n%s", s.name, cell, suiteDeadline, tail(printed.String(), 20))
	}
	r, err := readResults(dir)
	if err != nil {
		return nil, err
	}
	if len(r) == 0 && h.scenario == "" {
		return nil, fmt.Errorf("suite %s against %s: no results: %v\n%s", s.name, cell, runErr, tail(printed.String(), 20))
	}
	fmt.Fprintf(h.out, "suite %-10s against %-9s %3d scenarios pass, %d ran, %.1fs\n",
		s.name, cell, r.passed(), len(r), time.Since(began).Seconds())
	return r, nil
}

// The suite names a scenario's folder server-NAME-TIMESTAMP, or that of a client NAME-TIMESTAMP.
var resultDir = regexp.MustCompile(`^(?:server-)?(.+)-\d{4}-\d\d-\d\dT[-\d]+Z$`)

func readResults(dir string) (result, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil {
		return nil, err
	}
	r := result{}
	for _, file := range files {
		m := resultDir.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		if m == nil {
			return nil, fmt.Errorf("%s: not named as results of a scenario", file)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var s scenario
		if err := json.Unmarshal(data, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		r[m[1]] = s
	}
	return r, nil
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
