package migration

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/verify"
)

// Verify replays recorded cases: against the definitions in them, or against one of the files.
func (m *Migration) Verify(ctx context.Context, given bool, names []string) error {
	cases, err := verify.Load(m.Cases)
	if err != nil {
		return err
	}
	var chosen *migrate.Script
	if given {
		_, scripts, err := m.chosen(names)
		if err != nil {
			return err
		}
		chosen = scripts[0]
	}
	w := tabwriter.NewWriter(m.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CASE\tRESULT\tWHAT\tHAVE\tWANT")
	differ := 0
	for _, c := range cases {
		c.Style = migrate.Style(m.Style)
		if row := m.verifyCase(ctx, w, c, chosen); row {
			differ++
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if differ > 0 {
		return fmt.Errorf("%d of %d cases differ", differ, len(cases))
	}
	return nil
}

// verifyCase replays one case, writes its rows and reports whether the script differs.
func (m *Migration) verifyCase(ctx context.Context, w io.Writer, c verify.Case, s *migrate.Script) bool {
	var have verify.Outcome
	var err error
	if s == nil {
		have, err = c.Run(ctx)
	} else {
		have, err = c.RunScript(ctx, s)
	}
	diffs := verify.Compare(have, c.Want)
	if c.Style == migrate.Clean {
		diffs = verify.CompareClean(have, c.Want)
	}
	switch {
	case err != nil:
		fmt.Fprintf(w, "%s\tbroken\t%s\t\t\n", c.Name, oneLine(err.Error()))
		return true
	case len(diffs) == 0 && c.Style == migrate.Clean && c.Want.Refused() == "" && c.Want.Status != "completed":
		fmt.Fprintf(w, "%s\tfree\tthe recorded run failed; a clean script may succeed\t\t\n", c.Name)
		return false
	case len(diffs) == 0:
		fmt.Fprintf(w, "%s\tsame\t\t\t\n", c.Name)
		return false
	case c.Exception() != "":
		fmt.Fprintf(w, "%s\tmeant\t%s\t\t\n", c.Name, c.Exception())
		return false
	}
	for _, d := range diffs {
		fmt.Fprintf(w, "%s\tdiffers\t%s\t%s\t%s\n", c.Name, d.What, oneLine(d.Have), oneLine(d.Want))
	}
	return true
}

// oneLine shortens a text for a table.
func oneLine(s string) string {
	return display.ClipLine(strings.Join(strings.Fields(s), " "), 101)
}
