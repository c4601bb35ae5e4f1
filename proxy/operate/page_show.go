package operate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"

	"github.com/vmcp-dev/vmcp/proxy/status"
)

const (
	// maxShown bounds a text on a page, in bytes: a result, a schema, an error.
	maxShown = 64 << 10
	// maxLine bounds a text on one line, in characters: a name, the beginning of a description.
	maxLine = 240
	// maxContents bounds the content blocks of one result that are shown.
	maxContents = 50
)

// functions are the functions of the templates. Texts of others pass line or text, which make invisible characters
// visible.
var functions = template.FuncMap{
	"line": func(s string) string {
		return display.VisibleLine(display.ClipLine(strings.ToValidUTF8(s, "\uFFFD"), maxLine))
	},
	"text":  func(s string) string { return shown(s) },
	"json":  func(v json.RawMessage) string { return shown(pretty(v)) },
	"path":  url.PathEscape,
	"ago":   ago,
	"clock": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"ms":    duration,
	"bytes": size,
	"count": count,
	"short": func(s string) string {
		return display.VisibleLine(display.ClipLine(strings.TrimPrefix(s, "sha256:"), 12))
	},
	"first":    firstLine,
	"sections": func() []string { return []string{"overview", "tools", "runs", "problems"} },
	"hints":    hints,
	"profiles": func(s status.Status) []status.Profile { return s.Profiles },
}

// shown is a text in the form for a page.
func shown(s string) string {
	return display.VisibleText(display.Counted(strings.ToValidUTF8(s, "\uFFFD"), maxShown))
}

// firstLine is the beginning of a description.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return display.VisibleLine(display.ClipLine(strings.ToValidUTF8(line, "\uFFFD"), maxLine))
}

// pretty indents JSON; numbers are unchanged.
func pretty(v json.RawMessage) string {
	if len(v) > 4*maxShown { // only the beginning is shown
		return string(v)
	}
	var out bytes.Buffer
	if json.Indent(&out, v, "", "  ") != nil {
		return string(v)
	}
	return out.String()
}

func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	switch d := now.Sub(t); {
	case d < 2*time.Second:
		return "just now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	}
}

// duration formats milliseconds with a useful precision.
func duration(ms float64) string {
	switch {
	case ms >= 7200_000:
		return trim(ms/3600_000, 1) + " h"
	case ms >= 120_000:
		return trim(ms/60_000, 1) + " min"
	case ms >= 1000:
		return trim(ms/1000, 2) + " s"
	case ms >= 10:
		return trim(ms, 0) + " ms"
	}
	return trim(ms, 2) + " ms"
}

func trim(f float64, decimals int) string {
	s := strconv.FormatFloat(f, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func size(n any) string {
	var f float64
	switch n := n.(type) {
	case int:
		f = float64(n)
	case int64:
		f = float64(n)
	}
	switch {
	case f >= 1<<30:
		return trim(f/(1<<30), 1) + " GiB"
	case f >= 1<<20:
		return trim(f/(1<<20), 1) + " MiB"
	case f >= 1<<10:
		return trim(f/(1<<10), 1) + " KiB"
	}
	return trim(f, 0) + " B"
}

func count(n any, what string) string {
	text := fmt.Sprint(n)
	if text == "1" {
		return "1 " + what
	}
	return text + " " + what + "s"
}

// hints describes the annotations of a tool.
func hints(annotations json.RawMessage) (all []string) {
	var a struct {
		ReadOnly    *bool `json:"readOnlyHint"`
		Destructive *bool `json:"destructiveHint"`
		Idempotent  *bool `json:"idempotentHint"`
		OpenWorld   *bool `json:"openWorldHint"`
	}
	if json.Unmarshal(annotations, &a) != nil {
		return nil
	}
	say := func(v *bool, yes, no string) {
		switch {
		case v != nil && *v && yes != "":
			all = append(all, yes)
		case v != nil && !*v && no != "":
			all = append(all, no)
		}
	}
	say(a.ReadOnly, "only reads", "")
	say(a.Destructive, "may destroy", "")
	say(a.Idempotent, "may be repeated", "")
	say(a.OpenWorld, "open world", "")
	return all
}

// bar is a step of a run, with its position in the timeline in thousandths of the width.
type bar struct {
	status.Step
	X, Width string
	Depth    int
	Look     string // CSS class of its kind
}

// bars are the steps of a run, by begin.
func bars(r *status.Run) []bar {
	total := 0.01
	for _, s := range r.Steps {
		total = max(total, s.StartMs+s.DurationMs)
	}
	all := make([]bar, 0, len(r.Steps))
	for _, s := range r.Steps {
		b := bar{Step: s, Look: "step-other", Depth: min(6, strings.Count(s.Key, "/")+strings.Count(s.Key, ".b"))}
		width := max(1000*s.DurationMs/total, 3)
		b.X, b.Width = trim(min(1000*s.StartMs/total, 1000-width), 2), trim(width, 2)
		switch s.Kind {
		case "call":
			b.Look = "step-call"
		case "elicit":
			b.Look = "step-ask"
		case "sleep", "retry":
			b.Look = "step-wait"
		}
		if s.Error != "" {
			b.Look = "step-bad"
		}
		all = append(all, b)
	}
	return all
}

// result is a CallToolResult for display.
type result struct {
	IsError  bool
	Contents []content
	LeftOut  int
	Whole    string // the result as JSON
	Run      string // id of its run
	Asked    []asked
	State    string // requestState to send with the answers; the call has no result yet
	Waits    bool   // no question is open, and the call continues when it is repeated
}

// content is a content block of a result.
type content struct{ Kind, Text string }

func resultOf(raw json.RawMessage) result {
	r := result{IsError: string(jsonscan.Get(raw, "isError")) == "true", Run: jsonscan.GetString(jsonscan.Get(jsonscan.Get(raw, "_meta"), "dev.vmcp/run"), "id")}
	if jsonscan.GetString(raw, "resultType") == "input_required" {
		r.State = jsonscan.GetString(raw, "requestState")
		jsonscan.Each(jsonscan.Get(raw, "inputRequests"), func(key, value []byte) bool {
			params := jsonscan.Get(value, "params")
			q := status.Question{Key: string(key), Method: jsonscan.GetString(value, "method"), Message: jsonscan.GetString(params, "message"), Schema: jsonscan.Get(params, "requestedSchema")}
			a := askedOf(q, len(r.Asked))
			a.URL = jsonscan.GetString(params, "url")
			r.Asked = append(r.Asked, a)
			return len(r.Asked) < maxContents
		})
		r.Waits = len(r.Asked) == 0
		return r
	}
	jsonscan.Elements(jsonscan.Get(raw, "content"), func(v []byte) bool {
		if len(r.Contents) == maxContents {
			r.LeftOut++
			return true
		}
		r.Contents = append(r.Contents, contentOf(v))
		return true
	})
	if structured := jsonscan.Get(raw, "structuredContent"); structured != nil && !repeats(r.Contents, structured) {
		r.Contents = append(r.Contents, content{"structured", shown(pretty(structured))})
	}
	r.Whole = shown(pretty(raw))
	return r
}

// repeats reports whether the text of a result is its structured content as JSON, as the specification recommends.
func repeats(contents []content, structured json.RawMessage) bool {
	return len(contents) == 1 && contents[0].Kind == "text" && len(structured) <= maxShown && contents[0].Text == shown(pretty(structured))
}

func contentOf(v json.RawMessage) content {
	kind := jsonscan.GetString(v, "type")
	switch kind {
	case "text":
		text := jsonscan.GetString(v, "text")
		if t := strings.TrimSpace(text); t != "" && (t[0] == '{' || t[0] == '[') && jsonscan.Valid([]byte(t)) {
			text = pretty(json.RawMessage(t))
		}
		return content{kind, shown(text)}
	case "image", "audio":
		data := jsonscan.Get(v, "data")
		return content{kind, fmt.Sprintf("%s, %s", display.VisibleLine(display.ClipLine(jsonscan.GetString(v, "mimeType"), maxLine)), size(max(0, len(data)-2)*3/4))}
	}
	return content{kind, shown(pretty(v))}
}
