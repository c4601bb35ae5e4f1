package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// checkMargin is the multiple of its target from which a figure fails -check.
const checkMargin = 2

// report has all figures of a run.
type report struct {
	Taken   time.Time `json:"taken"`
	Machine string    `json:"machine"`
	Go      string    `json:"go"`
	Relay   []cell    `json:"relay,omitempty"`
	Figures []figure  `json:"figures"`
}

// figure is one number. Less is better.
type figure struct {
	Part   string  `json:"part"`
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`             // x (a ratio), us, ms, B or none
	Target float64 `json:"target,omitempty"` // 0: none
	// Limit bounds a value that does not depend on the machine; 0: none.
	Limit float64 `json:"limit,omitempty"`
}

// most is the bound of the figure; 0: none.
func (f *figure) most(margin float64) float64 {
	if f.Limit > 0 {
		return f.Limit
	}
	return margin * f.Target
}

func newReport() *report {
	return &report{
		Taken:   time.Now().UTC().Truncate(time.Second),
		Machine: fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cpuModel()),
		Go:      runtime.Version(),
	}
}

func cpuModel() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, _ := strings.Cut(string(b), "model name")
	line, _, _ := strings.Cut(rest, "\n")
	_, name, _ := strings.Cut(line, ": ")
	if name == "" {
		return "unknown model"
	}
	return strings.TrimSpace(name)
}

// exceeded lists the figures over their limit, or over margin times their target.
func (r *report) exceeded(margin float64) []figure {
	var bad []figure
	for _, f := range r.Figures {
		if most := f.most(margin); most > 0 && f.Value > most {
			bad = append(bad, f)
		}
	}
	return bad
}

func (r *report) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, %s\n", r.Taken.Format(time.RFC3339), r.Machine, r.Go)
	if len(r.Relay) > 0 {
		fmt.Fprint(w, "\nRelayed calls. Times in µs; CPU, allocations, bytes and waits (voluntary context switches) are per call, of the proxy process.\n")
		if err := errors.Join(r.printRelay(w), r.printOthers(w)); err != nil {
			return err
		}
	}
	part := ""
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, f := range r.Figures {
		if f.Part == "relay" {
			continue // in the table above
		}
		if f.Part != part {
			part = f.Part
			fmt.Fprintf(t, "\n%s\tvalue\ttarget\t\n", part)
		}
		target := "-"
		if f.Target > 0 {
			target = f.text(f.Target)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t\n", f.Name, f.text(f.Value), target)
	}
	return t.Flush()
}

func (r *report) printRelay(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for i := range r.Relay {
		c := &r.Relay[i]
		if i == 0 || c.Revision != r.Relay[i-1].Revision || c.Form != r.Relay[i-1].Form {
			fmt.Fprintf(t, "\n%s %s\tp50 direct\treverse\tvmcp\tratio\tp99 reverse\tvmcp\tcalls/s reverse\tvmcp\tCPU reverse\tvmcp\tratio\tallocs reverse\tvmcp\tkB reverse\tvmcp\twaits reverse\tvmcp\t\n", c.Revision, c.Form)
		}
		d, v, o := c.Legs[direct], c.Legs[reverse], c.Legs[relayed]
		fmt.Fprintf(t, "%s c=%d\t%.0f\t%.0f\t%.0f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t\n",
			bytesText(float64(c.Size)), c.Concurrency, d.P50, v.P50, o.P50, c.Ratio.P50, v.P99, o.P99, v.PerSecond, o.PerSecond,
			v.FrontCPU, o.FrontCPU, c.Ratio.CPU, v.Allocs, o.Allocs, v.Bytes/1000, o.Bytes/1000, v.Switches, o.Switches)
	}
	return t.Flush()
}

// printOthers prints the ratios of the other ways, where they were measured.
func (r *report) printOthers(w io.Writer) error {
	for way := relayed + 1; way < ways; way++ {
		if r.Relay[0].Legs[way].P50 == 0 {
			continue
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "\n%s\tp50\tratio\tCPU\tratio\tallocs\twaits\t\n", wayNames[way])
		for i := range r.Relay {
			c := &r.Relay[i]
			fmt.Fprintf(t, "%s\t%.0f\t%.2f\t%.0f\t%.2f\t%.0f\t%.1f\t\n", c.name(), c.Legs[way].P50, c.Others[way].P50, c.Legs[way].FrontCPU, c.Others[way].CPU, c.Legs[way].Allocs, c.Legs[way].Switches)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// text is a value in the figure's unit.
func (f *figure) text(v float64) string {
	switch f.Unit {
	case "x":
		return strconv.FormatFloat(v, 'f', 2, 64)
	case "B":
		return bytesText(v)
	}
	return strings.TrimSpace(strconv.FormatFloat(round(v), 'f', -1, 64) + " " + strings.Replace(f.Unit, "us", "µs", 1))
}

func bytesText(n float64) string {
	switch {
	case math.Abs(n) >= 1e6:
		return strconv.FormatFloat(round(n/1e6), 'f', -1, 64) + " MB"
	case math.Abs(n) >= 1e3:
		return strconv.FormatFloat(round(n/1e3), 'f', -1, 64) + " kB"
	}
	return strconv.FormatFloat(round(n), 'f', -1, 64) + " B"
}

// round keeps three digits.
func round(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	return r
}
