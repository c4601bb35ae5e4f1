package author

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/builtins/cases"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// This part of the package shows what a scripted tool did: as a tree of lines, as an HTML page, and in the trace format of
// Chrome.
//
//	page, err := trace.Page(c)

// Lines returns the steps of a case as a tree.
func Lines(c *cases.Case) []string {
	t := client.Trace{Tool: c.Tool, DurationMs: c.DurationMs}
	for i := range c.Effects {
		e := &c.Effects[i]
		step := status.Effect{Key: e.Key, Kind: e.Kind, Name: e.Name, StartMs: e.StartMs, DurationMs: e.DurationMs, Bytes: len(e.Result), Note: e.Note}
		if e.Failure != nil {
			step.Error = oneLine(e.Failure.Message)
		}
		t.Effects = append(t.Effects, step)
	}
	lines := t.Lines()
	if c.Failure != nil {
		lines = append(lines, "failed: "+oneLine(c.Failure.Message))
	}
	return lines
}

// oneLine is the first line of an error, shortened.
func oneLine(message string) string {
	first, _, _ := strings.Cut(message, "\n")
	return display.ClipLine(first, 200)
}

// FromTrace makes a case of the trace in a result: steps and times, without arguments and results.
func FromTrace(t *client.Trace, result json.RawMessage) *cases.Case {
	c := &cases.Case{Version: cases.Version, Tool: t.Tool, Arguments: json.RawMessage("{}"), DurationMs: t.DurationMs, Output: result}
	for _, e := range t.Effects {
		step := cases.Effect{Key: e.Key, Kind: e.Kind, Name: e.Name, StartMs: e.StartMs, DurationMs: e.DurationMs, Note: e.Note}
		if e.Error != "" {
			step.Failure = &cases.Failure{Message: e.Error}
		}
		c.Effects = append(c.Effects, step)
	}
	slices.SortStableFunc(c.Effects, func(a, b cases.Effect) int { return cases.CompareKeys(a.Key, b.Key) })
	return c
}

// A lane is a row of the picture: the steps of one branch, in order.
type lane struct {
	path  string // "" or "2.b0." or "3/"
	label string
	depth int
	rows  int   // more than one where a step was retried
	steps []int // of the case's effects
	row   []int // of each step
}

// lanesOf returns the lanes of a case, in the order of their keys.
func lanesOf(c *cases.Case) (lanes []*lane) {
	by := map[string]*lane{}
	for i := range c.Effects {
		key := c.Effects[i].Key
		path := key[:strings.LastIndexAny(key, "./")+1]
		l := by[path]
		if l == nil {
			l = &lane{path: path, label: labelOf(c, path), depth: strings.Count(path, ".b") + strings.Count(path, "/")}
			by[path] = l
			lanes = append(lanes, l)
		}
		l.steps = append(l.steps, i)
	}
	slices.SortStableFunc(lanes, func(a, b *lane) int { return cases.CompareKeys(a.path, b.path) })
	for _, l := range lanes {
		l.stack(c)
	}
	return lanes
}

// labelOf is the label of a lane: the tool, a branch, or the scripted tool that was called.
func labelOf(c *cases.Case, path string) string {
	if path == "" {
		return c.Tool
	}
	at := path[:len(path)-1]
	if i := strings.LastIndexAny(at, "./"); path[len(path)-1] == '.' && i >= 0 && strings.HasPrefix(at[i+1:], "b") {
		return "branch " + at[i+2:] + " of " + at[:i]
	}
	for i := range c.Effects {
		if c.Effects[i].Key == at {
			return c.Effects[i].Name
		}
	}
	return "step " + at
}

// stack puts the attempts of a retry in rows below each other: a step of the same name after a pause of retry.
func (l *lane) stack(c *cases.Case) {
	row, paused, last := 0, false, ""
	for _, i := range l.steps {
		e := &c.Effects[i]
		switch {
		case e.Kind == "retry":
			paused = true
		case paused && e.Kind+" "+e.Name == last:
			row, paused = row+1, false
		case !paused || e.Kind == "call" || e.Kind == "elicit":
			row, paused = 0, false
		}
		if e.Kind == "call" || e.Kind == "elicit" {
			last = e.Kind + " " + e.Name
		}
		l.row = append(l.row, row)
		l.rows = max(l.rows, row+1)
	}
	l.rows = max(l.rows, 1)
}

// class is the CSS class of a step.
func class(c *cases.Case, i int) string {
	e := &c.Effects[i]
	name := "call"
	switch {
	case e.Kind == "elicit":
		name = "ask"
	case e.Kind == "sleep" || e.Kind == "retry":
		name = "wait"
	case e.Kind != "call":
		name = "note"
	case i+1 < len(c.Effects) && strings.HasPrefix(c.Effects[i+1].Key, e.Key+"/"):
		name = "script"
	}
	if e.Failure != nil {
		name += " bad"
	}
	return name
}

// sources reads the source lines of steps, from files whose hash is still that of the program.
type sources struct {
	program map[string]string
	files   map[string][]string
}

const traceMaxSource = 1 << 20

func (s *sources) line(file string, n int) string {
	lines, known := s.files[file]
	if !known {
		if data, err := files.Read(file, traceMaxSource); err == nil {
			if sum := sha256.Sum256(data); s.program[file] == "sha256:"+hex.EncodeToString(sum[:]) {
				lines = strings.Split(string(data), "\n")
			}
		}
		s.files[file] = lines
	}
	if n < 1 || n > len(lines) {
		return ""
	}
	return strings.TrimSpace(lines[n-1])
}

// event is an event of the trace format of Chrome.
type event struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	At    float64        `json:"ts"`
	Took  float64        `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

// eventLog is a file in that format.
type eventLog struct {
	Events []event `json:"traceEvents"`
	Unit   string  `json:"displayTimeUnit"`
}

// TraceForm is the end of the help, which describes the JSON.
var TraceForm = cli.Of(eventLog{})

// Chrome renders a case in the trace format of Chrome, which Perfetto opens, too.
func Chrome(c *cases.Case) ([]byte, error) {
	events := []event{{Name: "process_name", Phase: "M", PID: 1, Args: map[string]any{"name": c.Tool}}}
	for n, l := range lanesOf(c) {
		events = append(events, event{Name: "thread_name", Phase: "M", PID: 1, TID: n + 1, Args: map[string]any{"name": l.label}},
			event{Name: "thread_sort_index", Phase: "M", PID: 1, TID: n + 1, Args: map[string]any{"sort_index": n}})
		for _, i := range l.steps {
			e := &c.Effects[i]
			args := map[string]any{"key": e.Key}
			for name, value := range map[string]json.RawMessage{"args": e.Args, "result": e.Result} {
				if value != nil {
					args[name] = value
				}
			}
			if e.Failure != nil {
				args["error"] = e.Failure
			}
			if e.Line > 0 {
				args["place"] = fmt.Sprintf("%s:%d", e.File, e.Line)
			}
			events = append(events, event{strings.TrimSpace(label(e)), e.Kind, "X", e.StartMs * 1000, e.DurationMs * 1000, 1, n + 1, args})
		}
	}
	return json.Marshal(eventLog{events, "ms"})
}

func label(e *cases.Effect) string {
	if e.Kind == "call" {
		return e.Name
	}
	return e.Kind + " " + e.Name
}
