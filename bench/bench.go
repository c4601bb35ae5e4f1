package main

import (
	"context"
	"fmt"
	"io"
)

// bench is one run of the command.
type bench struct {
	options options
	log     io.Writer
	site    *site
	report  *report
}

func newBench(o options, log io.Writer) *bench {
	return &bench{options: o, log: log, report: newReport()}
}

// say prints the progress of the run.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.log, "bench: "+format+"\n", args...) }

func (b *bench) figure(part, name string, value float64, unit string, target float64) {
	b.report.Figures = append(b.report.Figures, figure{Part: part, Name: name, Value: value, Unit: unit, Target: target})
}

// limited adds a figure with a limit that is the same on every machine.
func (b *bench) limited(part, name string, value, most float64) {
	b.report.Figures = append(b.report.Figures, figure{Part: part, Name: name, Value: value, Limit: most})
}

// run measures all parts, or the one of the flag -only.
func (b *bench) run(ctx context.Context) (_ *report, err error) {
	if b.site, err = openSite(ctx, b.options); err != nil {
		return nil, err
	}
	defer b.site.close()
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"relay", b.relay},
		{"lists", b.lists},
		{"scripts", b.scripts},
		{"start", b.start},
		{"sessions", b.sessions},
		{"soak", b.soak},
	} {
		if b.options.only != "" && b.options.only != part.name || b.options.check && part.name == "sessions" {
			continue
		}
		b.say("%s", part.name)
		if err := part.run(ctx); err != nil {
			return nil, err
		}
		if err := b.site.alive(); err != nil {
			return nil, err
		}
	}
	return b.report, nil
}
