// Bench measures the cost of the proxy, against the same bytes sent directly and through
// httputil.ReverseProxy.
//
//	go run ./bench          # everything, a few minutes, as tables
//	go run ./bench -quick   # the same in less time, less exact
//	go run ./bench -check   # exit 1 when a figure is over its limit, or twice its target or more
//	go run ./bench -json    # for machines
//	go run ./bench -tables first.json second.json   # two such runs as tables
//
// Backend, reverse proxy and vmcp run in separate processes; this process is the load client.
// Where nginx is installed, calls through it are measured as well, as an example of a
// proxy that is not written in Go. All connections use the loopback interface. Variants that are compared alternate,
// round by round, so that noise of the machine affects all of them; every figure is the median
// of its rounds.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// options are the command's flags.
type options struct {
	vmcp       string
	quick      bool
	check      bool
	json       bool
	only       string
	match      string
	length     time.Duration
	soak       time.Duration
	backend    bool
	reverse    string
	bufferPool bool
	against    string
	tables     bool
	files      []string
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.vmcp, "vmcp", "", "the vmcp `binary` to measure; built from this module without it")
	f.BoolVar(&o.quick, "quick", false, "fewer rounds and sizes")
	f.BoolVar(&o.check, "check", false, "measure the figures with a target or a limit, and fail when a figure is over its limit, or twice its target or more")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.only, "only", "", "run one `part`: relay, lists, scripts, start, sessions or soak")
	f.StringVar(&o.match, "match", "", "run only the cells of the relay table whose name contains `text`, such as \"sse 100 kB\"")
	f.DurationVar(&o.length, "length", 0, "`duration` of each round of a cell on each way, for profiles")
	f.DurationVar(&o.soak, "soak", 5*time.Second, "`duration` of the soak")
	f.BoolVar(&o.bufferPool, "buffer-pool", false, "use a pool of copy buffers in the reverse proxy, which has none by default")
	f.StringVar(&o.against, "against", "", "another vmcp `binary` to compare with, such as one from before a change")
	f.BoolVar(&o.tables, "tables", false, "print the tables of docs/performance.md from two files that -json wrote, given as arguments")
	f.BoolVar(&o.backend, "serve-backend", false, "run as the backend; used by the bench itself")
	f.StringVar(&o.reverse, "serve-reverse", "", "run as a reverse proxy in front of a `URL`; used by the bench itself")
	err := f.Parse(args)
	o.files = f.Args()
	return o, err
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if err != nil {
		return 2
	}
	if parts := []string{"", "relay", "lists", "scripts", "start", "sessions", "soak"}; !slices.Contains(parts, o.only) {
		fmt.Fprintf(stderr, "bench: -only %s: want one of%s\n", o.only, strings.Join(parts, " "))
		return 2
	}
	switch {
	case o.tables:
		err = writeTables(stdout, o.files)
	case o.backend:
		err = servePeer(stdin, stdout, newBackend())
	case o.reverse != "":
		err = serveReverse(stdin, stdout, o)
	default:
		return measure(o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// measure runs the parts and prints the report.
func measure(o options, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	report, err := newBench(o, stderr).run(ctx)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	if o.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		err = e.Encode(report)
	} else {
		err = report.print(stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	if bad := report.exceeded(checkMargin); o.check && len(bad) > 0 {
		for _, f := range bad {
			fmt.Fprintf(stderr, "bench: %s: %s is %s, want at most %s\n", f.Part, f.Name, f.text(f.Value), f.text(f.most(checkMargin)))
		}
		return 1
	}
	return 0
}
