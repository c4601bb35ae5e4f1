// Package cases stores runs of scripted tools as files: the arguments of the tool, every effect with its answer, and
// the result. A case can be run again as a test, served as a fake backend, and shown as a picture.
//
//	r := cases.NewRecorder(time.Now())
//	... every effect of the run: r.Add(event)
//	c := r.Case("refund", arguments)
//	c.Redact(rules)
//	err := cases.Write("tools/refund_cases/late.json", c)
//
// Files can be read by people and compared by Git: indented, numbers unchanged, invisible characters escaped. They are
// written atomically, and readable by their owner only.
package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/files"
)

const (
	// Version is the version of the format that Parse decodes and Encode writes.
	Version = 1
	// maxFile bounds the size of a file, in bytes.
	maxFile = 128 << 20
	// maxEffects bounds the effects of one case.
	maxEffects = 20000
)

// Case is one recorded call of a scripted tool.
type Case struct {
	Version  int       `json:"version"`
	Tool     string    `json:"tool"`
	Recorded time.Time `json:"recorded"`
	// Program has the hash of every file of the script, "sha256:" and hexadecimal digits, by its name.
	Program map[string]string `json:"program,omitempty"`
	// Arguments is the object that the tool was called with.
	Arguments json.RawMessage `json:"arguments"`
	// Effects are in the order of the script.
	Effects []Effect `json:"effects"`
	// Order has the keys of the effects in the order of their answers.
	Order []string `json:"order"`
	// Output is the value that the script returned, Content the blocks that it built itself. A run that failed has a
	// Failure instead of both.
	Output  json.RawMessage `json:"output,omitempty"`
	Content json.RawMessage `json:"content,omitempty"`
	IsError bool            `json:"isError,omitempty"` // the script marked its result as an error
	Failure *Failure        `json:"failure,omitempty"`

	DurationMs float64 `json:"durationMs"`
	// Redacted are JSON pointers to the values that were replaced.
	Redacted []string `json:"redacted,omitempty"`
}

// Effect is one effect of the script, with its answer.
type Effect struct {
	// Key is its position in the run, such as "2.b0.1", or "3/0" in a scripted tool that was called.
	Key  string `json:"key"`
	Kind string `json:"kind"` // call, elicit, sleep, now, log, ...
	Name string `json:"name"` // of the tool; the text of a log message, the length of a sleep
	// Args are the arguments of the call, or the message and the form of a question.
	Args json.RawMessage `json:"args,omitempty"`
	// Note says what was converted in them, for the types of the tool's schema.
	Note string `json:"note,omitempty"`
	// Result is the answer: a CallToolResult, an ElicitResult, a time. A failed effect has a Failure instead.
	Result     json.RawMessage `json:"result,omitempty"`
	Failure    *Failure        `json:"failure,omitempty"`
	StartMs    float64         `json:"startMs"` // since the run began
	DurationMs float64         `json:"durationMs"`
	// File and Line are the position in the script; none for effects of isolated scripts.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Failure is the reason why an effect or a run failed.
type Failure struct {
	Kind    string `json:"kind"` // as of try_call_tool; "script" where the script itself failed
	Message string `json:"message"`
}

// Nested reports whether the effect belongs to a scripted tool that the recorded one called.
func (e *Effect) Nested() bool { return strings.Contains(e.Key, "/") }

// Failed reports whether the call failed.
func (c *Case) Failed() bool { return c.Failure != nil || c.IsError }

// Encode returns the text of the file.
func (c *Case) Encode() ([]byte, error) {
	whole := *c
	whole.Effects, whole.Order = append([]Effect{}, c.Effects...), append([]string{}, c.Order...) // never null
	var compact bytes.Buffer
	e := json.NewEncoder(&compact)
	e.SetEscapeHTML(false) // <redacted 1> is to be read by people
	if err := e.Encode(&whole); err != nil {
		return nil, fmt.Errorf("case of %s: %w", c.Tool, err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(compact.Bytes()), "", "  "); err != nil {
		return nil, fmt.Errorf("case of %s: %w", c.Tool, err)
	}
	out.WriteByte('\n')
	return display.JSON(out.Bytes()), nil
}

// Write writes the file atomically, readable by its owner only.
func Write(path string, c *Case) error {
	data, err := c.Encode()
	if err != nil {
		return err
	}
	return files.WritePrivate(path, data)
}
