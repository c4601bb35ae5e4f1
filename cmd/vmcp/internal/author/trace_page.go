package author

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/builtins/cases"
	"github.com/vmcp-dev/vmcp/internal/display"
)

//go:embed page.css
var style string

//go:embed page.js
var code string

const (
	// pageTexts bounds all arguments, results and errors in a page together, in bytes.
	pageTexts = 480 << 10
	// stepTexts bounds those of one step, in bytes.
	stepTexts = 64 << 10

	top      = 28 // pixels above the first lane
	rowSize  = 26
	barSize  = 16
	noteSize = 8
	laneGap  = 8
)

// step is the data of an effect for the page's script; its times are attributes of its bar.
type step struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Source  string `json:"source,omitempty"`
	Args    string `json:"args,omitempty"`
	Result  string `json:"result,omitempty"`
	Error   string `json:"error,omitempty"`
	Why     string `json:"why,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Cut     bool   `json:"cut,omitempty"`
}

// Page renders a case as one HTML file. Its Content-Security-Policy allows only its own style and script, and no
// request. Texts of tools are data in it, never markup.
func Page(c *cases.Case) ([]byte, error) {
	p := &page{c: c, lanes: lanesOf(c), total: span(c)}
	p.budget = pageTexts / max(len(c.Effects), 1)
	if p.budget > stepTexts {
		p.budget = stepTexts
	}
	p.sources = sources{c.Program, map[string][]string{}}
	p.draw()
	data, err := json.Marshal(struct { // escapes <, >, &, U+2028 and U+2029
		Total float64 `json:"total"`
		Steps []step  `json:"steps"`
	}{p.total, p.steps})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>%s</style>
`, hash(style), hash(code), text(c.Tool), style)
	p.head(&out)
	fmt.Fprintf(&out, `<main><div class="lanes"><svg width="210" height="%d" aria-hidden="true">%s</svg></div>
<div class="chart"><svg id="plot" width="100%%" height="%[1]d" role="group" aria-label="steps over time">
<defs><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="7"/></pattern><pattern id="hatch-bad" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch-bad" x1="0" y1="0" x2="0" y2="7"/></pattern></defs>
%[3]s<g id="axis" class="axis"></g>
%[4]s</svg></div></main>
`, p.height, p.labels.String(), p.stripes.String(), p.bars.String())
	out.WriteString(`<section aria-live="polite"><p class="hint">Choose a step, with a click or with <kbd>Tab</kbd>, the arrow keys and <kbd>Enter</kbd>, to see what it was called with and what it answered.</p></section>
<script type="application/json" id="data">`)
	out.Write(data)
	fmt.Fprintf(&out, "</script>\n<script>%s</script>\n</html>\n", code)
	return out.Bytes(), nil
}

// hash is the source expression of a text in a Content-Security-Policy.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// text escapes a text for HTML, and makes invisible characters visible.
func text(s string) string {
	return html.EscapeString(strings.ToValidUTF8(display.VisibleLine(s), "\uFFFD"))
}

// span is the time that the picture covers, in milliseconds.
func span(c *cases.Case) float64 {
	total := max(c.DurationMs, 0.01)
	for i := range c.Effects {
		total = max(total, c.Effects[i].StartMs+c.Effects[i].DurationMs)
	}
	return total
}

// A page is a page that is being rendered.
type page struct {
	c       *cases.Case
	lanes   []*lane
	total   float64
	budget  int // of the texts of a step, in bytes
	sources sources

	height                int
	steps                 []step
	labels, stripes, bars strings.Builder
}

// head renders the summary above the picture.
func (p *page) head(out *bytes.Buffer) {
	state, failed := "completed", ""
	if p.c.Failed() {
		state, failed = "failed", " failed"
	}
	fmt.Fprintf(out, `<header><h1>%s</h1><span class="state%s">%s</span><span class="facts"><b>%s</b> in %s`,
		text(p.c.Tool), failed, state, text(duration(p.c.DurationMs)), count(len(p.c.Effects), "step"))
	if !p.c.Recorded.IsZero() {
		fmt.Fprintf(out, ", %s", p.c.Recorded.UTC().Format("2 January 2006 15:04:05 UTC"))
	}
	out.WriteString("</span></header>\n")
	if f := p.c.Failure; f != nil {
		fmt.Fprintf(out, "<div class=\"wrong\">%s</div>\n", html.EscapeString(strings.ToValidUTF8(display.VisibleText(f.Message), "\uFFFD")))
	}
	out.WriteString(`<div class="tools">`)
	for _, k := range [][2]string{{"call", "tool"}, {"script", "scripted tool"}, {"ask", "question"}, {"wait", "pause"}, {"note", "instant"}, {"call bad", "failed"}} {
		fmt.Fprintf(out, `<span class="key"><svg width="16" height="12"><rect class="sample %s" x="1" y="1" width="14" height="10" rx="2"/></svg>%s</span>`, k[0], k[1])
	}
	out.WriteString(`<label>zoom <input id="zoom" type="range" min="0" max="8" step="0.25" value="0"></label></div>` + "\n")
}

// draw renders the lanes with their bars.
func (p *page) draw() {
	y := top
	for n, l := range p.lanes {
		size := l.rows*rowSize + laneGap
		if n%2 == 1 {
			fmt.Fprintf(&p.stripes, `<rect class="odd" x="0" y="%d" width="100%%" height="%d"/>`, y, size)
			fmt.Fprintf(&p.labels, `<rect class="odd" x="0" y="%d" width="100%%" height="%d"/>`, y, size)
		}
		below := ""
		if l.depth > 0 {
			below = ` class="below"`
		}
		fmt.Fprintf(&p.labels, `<text%s x="%d" y="%d">%s</text>`, below, 12+14*min(l.depth, 6), y+laneGap/2+17, text(display.ClipLine(l.label, 30)))
		for i, s := range l.steps {
			p.bar(s, y+laneGap/2+l.row[i]*rowSize, l.row[i])
		}
		y += size
	}
	p.height = max(y, top+rowSize) + 4
}

// bar renders one step.
func (p *page) bar(i, y, attempt int) {
	e := &p.c.Effects[i]
	look := class(p.c, i)
	size := barSize
	if strings.HasPrefix(look, "note") {
		size = noteSize
	}
	y += (rowSize - size) / 2
	x, width := 100*e.StartMs/p.total, max(100*e.DurationMs/p.total, 0.0001) // browsers do not draw a width of 0
	fmt.Fprintf(&p.bars, `<rect class="bar %s" x="%s%%" y="%d" width="%s%%" height="%d" rx="2" data-key="%s" data-start-ms="%s" data-duration-ms="%s"/>`,
		look, number(x, 4), y, number(width, 4), size, text(e.Key), number(e.StartMs, 3), number(e.DurationMs, 3))
	if width > 6 && len(p.c.Effects) <= 300 && size == barSize {
		tone := ""
		if strings.HasPrefix(look, "ask") || strings.HasPrefix(look, "wait") {
			tone = " dark"
		}
		fmt.Fprintf(&p.bars, `<svg x="%s%%" y="%d" width="%s%%" height="%d"><text class="name%s" x="7" y="12">%s</text></svg>`,
			number(x, 4), y, number(width, 4), size, tone, text(display.ClipLine(label(e), 60)))
	}
	p.bars.WriteByte('\n')
	s := step{Kind: e.Kind, Name: display.ClipLine(display.VisibleLine(strings.ToValidUTF8(e.Name, "\uFFFD")), 500), File: e.File, Line: e.Line, Attempt: attempt, Source: p.sources.line(e.File, e.Line)}
	left := p.budget
	take := func(t string) string {
		if len(t) > left {
			t, s.Cut = display.Bytes(t, left)+display.Mark, true
		}
		left -= min(len(t), left)
		return t
	}
	if e.Failure != nil {
		s.Error, s.Why = take(display.VisibleText(e.Failure.Message)), e.Failure.Kind
		if s.Error == "" {
			s.Error = "failed"
		}
	}
	s.Args, s.Result = take(string(display.JSON(e.Args))), take(string(display.JSON(e.Result)))
	p.steps = append(p.steps, s)
}

// number prints a number with at most this many decimals.
func number(f float64, decimals int) string {
	s := strconv.FormatFloat(f, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func duration(ms float64) string {
	switch {
	case ms >= 1000:
		return number(ms/1000, 2) + " s"
	case ms >= 10:
		return number(ms, 1) + " ms"
	}
	return number(ms, 2) + " ms"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
