package operate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

func (e Env) status() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "status",
		Short: "show the state of a running endpoint: its backends, its configuration, its tools",
		Long: `Status shows the state of a running endpoint. The exit code is 0 if every backend that is not disabled
is ready and the last version of the configuration is served, and 1 otherwise, also if there is no
response. In a cluster it shows the replica that it reaches, and with --all also every other.` + cli.Help(cli.JSONForm{Name: "STATUS", Value: status.Status{}}, cli.JSONForm{When: "--all", Value: replicas{}}),
		Example: "  vmcp status\n  vmcp status --output json | jq '.backends[] | select(.state != \"ready\")'",
		Args:    cobra.NoArgs,
	}
	f.register(c, e)
	output := e.Output(c)
	all := c.Flags().Bool("all", false, "of every replica of the cluster")
	c.RunE = func(c *cobra.Command, _ []string) error {
		at, err := f.open()
		if err != nil {
			return err
		}
		if *all {
			return e.statusOfAll(c.Context(), at, *output == "json")
		}
		var s status.Status
		if err := at.fetch(c.Context(), "status", &s); err != nil {
			return err
		}
		if *output == "json" {
			err = e.JSON(s)
		} else {
			err = e.printStatus(&s, time.Now())
		}
		if err == nil && !s.Healthy() {
			err = e.Found
		}
		return err
	}
	return c
}

// replicas is the JSON for the replicas of a cluster.
type replicas struct {
	Replicas []status.Replica `json:"replicas"`
}

// statusOfAll prints the status of every replica.
func (e Env) statusOfAll(ctx context.Context, at *client, asJSON bool) error {
	var found replicas
	err := at.fetch(ctx, "replicas", &found)
	if err != nil {
		return err
	}
	healthy := true
	for i, r := range found.Replicas {
		healthy = healthy && r.Status != nil && r.Status.Healthy()
		switch {
		case asJSON:
			continue
		case i > 0:
			fmt.Fprintln(e.Out)
		}
		if r.Status == nil {
			_, err = fmt.Fprintf(e.Out, "replica %s at %s does not answer: %s\n", e.Line(r.ID), e.Line(r.Address), e.Line(strings.TrimPrefix(r.Error, "replica "+r.ID+": ")))
		} else {
			err = e.printStatus(r.Status, time.Now())
		}
		if err != nil {
			return err
		}
	}
	if asJSON {
		err = e.JSON(found)
	}
	if err == nil && !healthy {
		err = e.Found
	}
	return err
}

// printStatus prints a status for a person.
func (e Env) printStatus(s *status.Status, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s at %s: %s, up %s, pid %d\n", s.Name, s.Version, cmp.Or(s.URL, "standard input and output"), condition(s), age(s.StartedAt, now), s.PID)
	if s.Config.Generation > 0 {
		fmt.Fprintf(&b, "configuration %s: generation %d, applied %s ago, %s\n", cmp.Or(s.Config.Source, "-"), s.Config.Generation, age(s.Config.AppliedAt, now), short(s.Config.Hash))
	}
	if c := s.Cluster; c != nil {
		fmt.Fprintf(&b, "replica %s at %s, one of %d: everything below is about this one\n", c.ID, e.Line(c.Advertise), c.Replicas)
		if c.Configs > 1 {
			fmt.Fprintf(&b, "the replicas serve %d different configurations\n", c.Configs)
		}
		if c.Error != "" {
			fmt.Fprintf(&b, "not ready: %s\n", e.Line(c.Error))
		}
	}
	fmt.Fprintf(&b, "%s, %s", count(s.Sessions, "session"), count(s.Tools.Visible, "tool"))
	if s.Tools.Hidden > 0 {
		fmt.Fprintf(&b, " and %d hidden", s.Tools.Hidden)
	}
	b.WriteString("\n")
	e.printBackends(&b, s, now)
	if s.Config.Error != "" {
		b.WriteString("\nthe last configuration is not served:\n")
		for line := range strings.Lines(s.Config.Error) {
			b.WriteString("  " + e.Line(strings.TrimSpace(line)) + "\n")
		}
	}
	if len(s.Problems) > 0 {
		b.WriteString("\nproblems:\n")
		for _, p := range s.Problems {
			where := strings.TrimPrefix(p.Backend+": "+p.Entry+": ", ": ")
			b.WriteString("  " + e.Line(where+p.Text()) + "\n")
		}
	}
	_, err := fmt.Fprint(e.Out, b.String())
	return err
}

// printBackends prints the table of backends, and below it why some are not ready.
func (e Env) printBackends(b *strings.Builder, s *status.Status, now time.Time) {
	if len(s.Backends) == 0 {
		return
	}
	b.WriteString("\n")
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "BACKEND\tSTATE\tFOR\tTRANSPORT\tTOOLS\tCALLS\tFAILED\tLAST CALL\tRESTARTS\tPID\tMEMORY")
	for _, be := range s.Backends {
		last := "-"
		if !be.LastCallAt.IsZero() {
			last = age(be.LastCallAt, now) + " ago"
		}
		pids, memory := processes(be.Processes)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%d\t%s\t%s\n", e.Line(be.Name), be.State, age(be.Since, now), be.Transport,
			be.Tools, be.Calls, be.Failures, last, be.Restarts, pids, memory)
	}
	w.Flush()
	gap := "\n"
	for _, be := range s.Backends {
		if be.State != status.Ready && be.State != status.Disabled {
			reason := cmp.Or(strings.TrimPrefix(be.Error, "backend "+be.Name+": "), "no answer yet")
			fmt.Fprintf(b, "%s%s is %s: %s\n", gap, e.Line(be.Name), be.State, e.Line(reason))
			gap = ""
		}
	}
}

// condition is the state of the endpoint in a word or two.
func condition(s *status.Status) string {
	switch {
	case s.Draining:
		return "draining"
	case !s.Ready:
		return "not ready yet"
	case !s.Healthy():
		return "ready, with trouble"
	}
	return "ready"
}

// processes are the ids of processes and the sum of their memory.
func processes(all []status.Process) (pids, memory string) {
	var sum int64
	var ids []string
	for _, p := range all {
		ids = append(ids, fmt.Sprint(p.PID))
		sum += p.RSSBytes
	}
	memory = "-"
	if sum > 0 {
		memory = limits.Bytes(sum >> 20 << 20).String()
	}
	return cmp.Or(strings.Join(ids, ","), "-"), memory
}

// short is the beginning of a hash.
func short(hash string) string { return hash[:min(len(hash), len("sha256:")+12)] }

// count is a number with its noun, in the plural unless it is one.
func count(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return fmt.Sprintf("%d %s", n, of)
}

// age is the time since a moment, in its largest two units.
func age(since, now time.Time) string {
	d := now.Sub(since)
	switch {
	case since.IsZero():
		return "-"
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}
