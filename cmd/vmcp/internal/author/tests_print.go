package author

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/vmcp-dev/vmcp/builtins/suite"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
)

// TestForm is the end of the help, which describes the JSON.
var TestForm = cli.Of(suite.Report{})

// WriteText prints the tests that did not pass, a line for each problem, and a summary.
func WriteText(w io.Writer, r *suite.Report, cover bool, clean func(string) string) error {
	var b strings.Builder
	replays, orders := 0, 0
	for _, t := range r.Tests {
		replays, orders = replays+t.Variants.Replay, orders+t.Variants.Orders
		for _, p := range t.Problems {
			fmt.Fprintln(&b, clean(p.Diag().Error()))
		}
	}
	if cover && r.Coverage != nil {
		writeCoverage(&b, r.Coverage)
	}
	fmt.Fprintf(&b, "%d passed", r.Passed)
	if r.Failed > 0 {
		fmt.Fprintf(&b, ", %d failed", r.Failed)
	}
	if r.Skipped > 0 {
		fmt.Fprintf(&b, ", %d skipped", r.Skipped)
	}
	if replays+orders > 0 {
		fmt.Fprintf(&b, "; reruns: %d stopped and resumed, %d with another order of branches", replays, orders)
	}
	if !r.Locked {
		b.WriteString("; not all tools are in a lock: the names and schemas of those are not checked")
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCoverage prints a line for each file, and the totals.
func writeCoverage(b *strings.Builder, c *suite.Coverage) {
	line := func(name string, s, br suite.Share, missing []int) {
		fmt.Fprintf(b, "%s: %.1f %% of statements (%d/%d), %.1f %% of branches (%d/%d)", name,
			s.Percent(), s.Covered, s.Total, br.Percent(), br.Covered, br.Total)
		if len(missing) > 0 {
			fmt.Fprintf(b, ", missing in %s", ranges(missing))
		}
		b.WriteByte('\n')
	}
	for _, f := range c.Files {
		line(f.File, f.Statements, f.Branches, f.Missing)
	}
	s, br := c.Total()
	line("total", s, br, nil)
}

// ranges prints sorted numbers as "3, 5-7".
func ranges(lines []int) string {
	const most = 12
	var parts []string
	for i := 0; i < len(lines); {
		j := i
		for j+1 < len(lines) && lines[j+1] == lines[j]+1 {
			j++
		}
		part := fmt.Sprint(lines[i])
		if j > i {
			part = fmt.Sprintf("%d-%d", lines[i], lines[j])
		}
		if parts = append(parts, part); len(parts) > most {
			parts[most] = "…"
			break
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr,omitempty"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name     string         `xml:"name,attr"`
		Class    string         `xml:"classname,attr"`
		Time     string         `xml:"time,attr"`
		Failures []junitFailure `xml:"failure"`
		Skipped  *struct{}      `xml:"skipped"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report in the XML of JUnit, for continuous integration.
func WriteJUnit(w io.Writer, r *suite.Report, clean func(string) string) error {
	var all junitSuites
	byFile := map[string]int{}
	for _, t := range r.Tests {
		i, known := byFile[t.File]
		if !known {
			i = len(all.Suites)
			byFile[t.File] = i
			all.Suites = append(all.Suites, junitSuite{Name: printable(t.File)})
		}
		s := &all.Suites[i]
		c := junitCase{Name: printable(cmp.Or(t.Name, t.File)), Class: printable(t.File), Time: fmt.Sprintf("%.3f", t.DurationMs/1000)}
		for _, p := range t.Problems {
			c.Failures = append(c.Failures, junitFailure{printable(clean(p.Message)), p.Code, printable(clean(p.Diag().Error()))})
		}
		s.Tests++
		switch t.Status {
		case suite.Failed:
			s.Failures++
		case suite.Skipped:
			s.Skipped++
			c.Skipped = &struct{}{}
		}
		s.Cases = append(s.Cases, c)
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

// printable replaces characters that XML 1.0 cannot contain by their numbers.
func printable(s string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\ufffd") {
		switch {
		case r == '\t' || r == '\n' || r == '\r',
			r >= 0x20 && r < 0x7f || r > 0x9f && r <= 0xd7ff || r >= 0xe000 && r <= 0xfffd || r >= 0x10000:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
