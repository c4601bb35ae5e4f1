package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// report prints a table of scenarios by cell, and the checks that pass only without the proxy. It returns
// whether there are none of these.
func (h *harness) report(direct map[string]result, proxied map[string]map[string]result) bool {
	w := tabwriter.NewWriter(h.out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "\nsuite\tscenario\tdirect\t%s\n", strings.Join(names(h.backends), "\t"))
	var losses []string
	for _, s := range h.suites {
		for _, name := range slices.Sorted(maps.Keys(direct[s.name])) {
			want := direct[s.name][name]
			if !want.passed() {
				continue
			}
			row := []string{s.name, name, want.summary()}
			for _, b := range h.backends {
				cell, loss := compare(s, b, name, want, proxied[b.name][s.name][name])
				row = append(row, cell)
				losses = append(losses, loss...)
			}
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
	}
	w.Flush()
	h.summarize(direct, proxied)
	if len(losses) > 0 {
		fmt.Fprintf(h.out, "\npasses directly, but not through the proxy:\n%s\n", strings.Join(losses, "\n"))
	}
	return len(losses) == 0
}

// compare returns the table's cell of one scenario, and the lines to report.
func compare(s suite, b backend, name string, want, got scenario) (cell string, losses []string) {
	lost := want.lost(got)
	reason := reasonFor(s, b, name)
	at := fmt.Sprintf("  %s, backend %s: %s", s.name, b.name, name)
	switch {
	case len(lost) == 0 && reason != "" && got != nil:
		return got.summary(), []string{at + ": listed as impossible, but it passes: remove the row"}
	case reason != "":
		return "impossible", nil
	}
	for _, c := range lost {
		losses = append(losses, fmt.Sprintf("%s: %s: %s: %s %s", at, c.ID, c.Status, c.Message, c.details()))
	}
	return got.summary(), losses
}

func reasonFor(s suite, b backend, name string) string {
	for _, row := range impossible {
		if row.suite == s.name && row.backend == cmp.Or(b.like, b.name) && row.scenario == name {
			return row.reason
		}
	}
	return ""
}

// summary is the number of checks that succeed, and FAIL when others do not.
func (s scenario) summary() string {
	if s.passed() {
		return fmt.Sprint(s.succeeded())
	}
	return fmt.Sprintf("FAIL (%d)", s.succeeded())
}

// details is the beginning of the suite's details, on one line.
func (c check) details() string {
	var line bytes.Buffer
	if json.Compact(&line, c.Details) != nil {
		return ""
	}
	return string(line.Bytes()[:min(line.Len(), 400)])
}

func (h *harness) summarize(direct map[string]result, proxied map[string]map[string]result) {
	fmt.Fprintln(h.out)
	for _, s := range h.suites {
		fmt.Fprintf(h.out, "%s: %d directly", s.name, direct[s.name].passed())
		for _, b := range h.backends {
			n := 0
			for name, want := range direct[s.name] {
				if want.passed() && proxied[b.name][s.name][name].passed() {
					n++
				}
			}
			fmt.Fprintf(h.out, ", %d through the proxy over %s", n, b.name)
		}
		fmt.Fprintln(h.out)
	}
	for _, row := range impossible {
		fmt.Fprintf(h.out, "impossible: %s, backend %s: %s: %s\n", row.suite, row.backend, row.scenario, row.reason)
	}
}
