package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// maxStored bounds a report that is read from a file.
const maxStored = 16 << 20

// writeTables prints the tables of docs/performance.md from two reports that -json wrote.
func writeTables(w io.Writer, files []string) error {
	if len(files) != 2 {
		return fmt.Errorf("-tables: want two files that -json wrote, have %d", len(files))
	}
	var runs [2]report
	for i, name := range files {
		if err := readReport(name, &runs[i]); err != nil {
			return err
		}
	}
	for _, r := range runs {
		fmt.Fprintf(w, "    %s, %s, %s\n", r.Taken.Format(time.RFC3339), r.Machine, r.Go)
	}
	if err := relayTables(w, runs[0].Relay, runs[1].Relay); err != nil {
		return err
	}
	otherTables(w, runs[0].Relay, runs[1].Relay)
	return figureTables(w, runs[0].Figures, runs[1].Figures)
}

func readReport(name string, r *report) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxStored)).Decode(r); err != nil {
		return fmt.Errorf("%s: want a report that -json wrote: %w", name, err)
	}
	return nil
}

var errDiffer = errors.New("-tables: the two reports did not measure the same")

// relayTables prints one table for each revision and form.
func relayTables(w io.Writer, first, second []cell) error {
	if len(first) != len(second) {
		return errDiffer
	}
	for i, a := range first {
		b := second[i]
		if a.name() != b.name() {
			return errDiffer
		}
		if i == 0 || a.Revision != first[i-1].Revision || a.Form != first[i-1].Form {
			fmt.Fprintf(w, "\n%s, %s:\n\n", a.Revision, map[string]string{"json": "JSON", "sse": "event stream"}[a.Form])
			fmt.Fprintln(w, "| answer | callers | p50 µs direct | reverse | vmcp | ratio | CPU µs reverse | vmcp | ratio | calls/s reverse | vmcp | ratio | allocated kB reverse | vmcp |")
			fmt.Fprintln(w, "|---|"+strings.Repeat("--:|", 13))
		}
		d, r, v := a.Legs[direct], a.Legs[reverse], a.Legs[relayed]
		fmt.Fprintf(w, "| %s | %d | %.0f | %.0f | %.0f | %.2f / %.2f | %.0f | %.0f | %.2f / %.2f | %.0f | %.0f | %.2f / %.2f | %.0f | %.0f |\n",
			bytesText(float64(a.Size)), a.Concurrency, d.P50, r.P50, v.P50, a.Ratio.P50, b.Ratio.P50,
			r.FrontCPU, v.FrontCPU, a.Ratio.CPU, b.Ratio.CPU,
			r.PerSecond, v.PerSecond, part(1, a.Ratio.Throughput), part(1, b.Ratio.Throughput), r.Bytes/1000, v.Bytes/1000)
	}
	return nil
}

// otherTables prints one table for each revision and form of vmcp against the reverse proxy, with
// the spread of its rounds, beside another vmcp and nginx; nothing where neither was measured.
func otherTables(w io.Writer, first, second []cell) {
	if len(first) == 0 || first[0].Legs[before].P50 == 0 && first[0].Legs[nginx].P50 == 0 {
		return
	}
	for i := range first {
		a, b := &first[i], &second[i]
		if i == 0 || a.Revision != first[i-1].Revision || a.Form != first[i-1].Form {
			fmt.Fprintf(w, "\n%s, %s, p50 / CPU of the reverse proxy's:\n\n", a.Revision, map[string]string{"json": "JSON", "sse": "event stream"}[a.Form])
			fmt.Fprintln(w, "| answer | callers | before | vmcp | its rounds, p50 | its rounds, CPU | nginx | allocations before | vmcp | waits before | vmcp |")
			fmt.Fprintln(w, "|---|"+strings.Repeat("--:|", 10))
		}
		both := func(way int) string {
			if a.Legs[way].P50 == 0 {
				return "-"
			}
			return fmt.Sprintf("%.2f / %.2f, %.2f / %.2f", a.Others[way].P50, a.Others[way].CPU, b.Others[way].P50, b.Others[way].CPU)
		}
		spread := func(a, b [2]float64) string { return fmt.Sprintf("%.2f–%.2f", min(a[0], b[0]), max(a[1], b[1])) }
		fmt.Fprintf(w, "| %s | %d | %s | %s | %s | %s | %s | %.0f | %.0f | %.1f | %.1f |\n", bytesText(float64(a.Size)), a.Concurrency, both(before), both(relayed),
			spread(a.Ratio.Spread.P50, b.Ratio.Spread.P50), spread(a.Ratio.Spread.CPU, b.Ratio.Spread.CPU), both(nginx),
			a.Legs[before].Allocs, a.Legs[relayed].Allocs, a.Legs[before].Switches, a.Legs[relayed].Switches)
	}
}

// figureTables prints one table for each part.
func figureTables(w io.Writer, first, second []figure) error {
	if len(first) != len(second) {
		return errDiffer
	}
	part := ""
	for i, a := range first {
		b := second[i]
		if a.Name != b.Name || a.Part != b.Part {
			return errDiffer
		}
		if a.Part == "relay" {
			continue // in the tables above
		}
		if a.Part != part {
			part = a.Part
			fmt.Fprintf(w, "\n| %s%s | first | second | target |\n|---|--:|--:|--:|\n", strings.ToUpper(part[:1]), part[1:])
		}
		target := "-"
		if a.Target > 0 {
			target = a.text(a.Target)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", a.Name, a.text(a.Value), b.text(b.Value), target)
	}
	return nil
}
