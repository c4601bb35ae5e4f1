package cases

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// casesCode is the code of problems with a file.
const casesCode = "case"

// Read reads and parses a file. An invalid file is a diag.Problem with its position.
func Read(path string) (*Case, error) {
	data, err := files.Read(path, maxFile)
	if err != nil {
		return nil, diag.Named(path, err)
	}
	return Parse(path, data)
}

// Parse parses the text of a file; path is for messages. Unknown members are errors, because files are edited by hand.
func Parse(path string, data []byte) (*Case, error) {
	r := &reader{path: path, data: data}
	if err := jsonscan.Check(data); err != nil {
		return nil, r.syntax(err)
	}
	c := &Case{}
	if err := r.read(c, bytes.TrimSpace(data)); err != nil {
		return nil, err
	}
	return c, r.check(c)
}

type reader struct {
	path string
	data []byte
}

// wrong returns a problem at the beginning of part, a slice of the file's text.
func (r *reader) wrong(part []byte, format string, args ...any) error {
	return r.at(cap(r.data)-cap(part), fmt.Sprintf(format, args...))
}

// at returns a problem at a byte of the file.
func (r *reader) at(offset int, message string) error {
	before := r.data[:min(max(offset, 0), len(r.data))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + len([]rune(string(before[bytes.LastIndexByte(before, '\n')+1:])))
	return diag.Problem{Pos: diag.Pos{File: diag.File(r.path), Line: line, Column: column}, Code: casesCode, Message: message}
}

func (r *reader) syntax(err error) error {
	var v any
	var where *json.SyntaxError
	switch {
	case len(bytes.TrimSpace(r.data)) == 0:
		return r.at(0, "the file is empty, want a recorded case")
	case errors.As(json.Unmarshal(r.data, &v), &where):
		return r.at(int(where.Offset)-1, "not JSON: "+where.Error())
	}
	return r.at(0, "not JSON: "+err.Error())
}

// fields are functions for the members of an object, by their names.
type fields map[string]func(value []byte) error

// object calls known for the members of an object, each of which may occur once.
func (r *reader) object(at string, raw []byte, known fields) (err error) {
	if kind := jsonscan.Kind(raw); kind != "an object" {
		return r.wrong(raw, "%swant an object, have %s", prefix(at), kind)
	}
	seen := map[string]bool{}
	jsonscan.Each(raw, func(k, value []byte) bool {
		key := string(k)
		read, ok := known[key]
		switch {
		case seen[key]:
			err = r.wrong(value, "%sduplicate member %q", prefix(at), key)
		case !ok:
			var names []string
			for name := range known {
				names = append(names, name)
			}
			err = r.wrong(value, "%sunknown member %q%s", prefix(at), key, display.Hint(key, names))
		default:
			err = read(value)
		}
		seen[key] = true
		return err == nil
	})
	return err
}

func prefix(at string) string {
	if at == "" {
		return ""
	}
	return at + ": "
}

// into returns a function that decodes a value of a simple type.
func (r *reader) into(at string, to any, want string) func([]byte) error {
	return func(value []byte) error {
		if err := json.Unmarshal(value, to); err != nil || string(value) == "null" {
			return r.wrong(value, "%s: want %s, have %s", at, want, jsonscan.Kind(value))
		}
		return nil
	}
}

// raw returns a function that keeps a value as it is written.
func (r *reader) raw(to *json.RawMessage) func([]byte) error {
	return func(value []byte) error {
		*to = jsonscan.Compact(value)
		return nil
	}
}

func (r *reader) read(c *Case, raw []byte) error {
	if err := r.version(raw); err != nil {
		return err
	}
	return r.object("", raw, fields{
		"version":    r.into("version", &c.Version, "a number"),
		"tool":       r.into("tool", &c.Tool, "the name of the tool"),
		"recorded":   r.time(&c.Recorded),
		"program":    r.into("program", &c.Program, "an object of hashes by the names of files"),
		"arguments":  r.raw(&c.Arguments),
		"effects":    func(value []byte) error { return r.effects(c, value) },
		"order":      r.into("order", &c.Order, "a list of the keys of effects"),
		"output":     r.raw(&c.Output),
		"content":    r.raw(&c.Content),
		"isError":    r.into("isError", &c.IsError, "a boolean"),
		"failure":    r.failure("failure", &c.Failure),
		"durationMs": r.into("durationMs", &c.DurationMs, "a number"),
		"redacted":   r.into("redacted", &c.Redacted, "a list of JSON pointers"),
	})
}

// version is checked first: members of another version are not errors of this one.
func (r *reader) version(raw []byte) error {
	if kind := jsonscan.Kind(raw); kind != "an object" {
		return r.wrong(raw, "want a recorded case, an object, have %s", kind)
	}
	v := jsonscan.Get(raw, "version")
	switch {
	case v == nil:
		return r.wrong(raw, "want version: %d, have none: this is not a recorded case", Version)
	case string(v) != strconv.Itoa(Version):
		return r.wrong(v, "version: want %d, have %s; another vmcp may have written it", Version, v)
	}
	return nil
}

func (r *reader) time(to *time.Time) func([]byte) error {
	return func(value []byte) error {
		t, err := time.Parse(time.RFC3339Nano, jsonscan.Text(value))
		if err != nil {
			return r.wrong(value, "recorded: want a time such as \"2026-11-22T10:00:00Z\", have %s", value)
		}
		*to = t
		return nil
	}
}

func (r *reader) failure(at string, to **Failure) func([]byte) error {
	return func(value []byte) error {
		f := &Failure{}
		*to = f
		return r.object(at, value, fields{
			"kind":    r.into(at+": kind", &f.Kind, "a string"),
			"message": r.into(at+": message", &f.Message, "a string"),
		})
	}
}

func (r *reader) effects(c *Case, raw []byte) (err error) {
	if kind := jsonscan.Kind(raw); kind != "an array" {
		return r.wrong(raw, "effects: want an array, have %s", kind)
	}
	seen := map[string]bool{}
	jsonscan.Elements(raw, func(value []byte) bool {
		if len(c.Effects) == maxEffects {
			err = r.wrong(value, "effects: more than %d", maxEffects)
			return false
		}
		at := fmt.Sprintf("effects[%d]", len(c.Effects))
		var e Effect
		switch err = r.effect(at, value, &e); {
		case err != nil:
		case !keyForm.MatchString(e.Key):
			err = r.wrong(value, "%s: key: want the position of an effect, such as \"2.b0.1\", have %q", at, e.Key)
		case seen[e.Key]:
			err = r.wrong(value, "%s: duplicate key %q", at, e.Key)
		case !isTime(e.StartMs) || !isTime(e.DurationMs):
			err = r.wrong(value, "%s: startMs and durationMs: want milliseconds from 0, have %g and %g", at, e.StartMs, e.DurationMs)
		case e.Kind == "":
			err = r.wrong(value, "%s: kind: want what the effect is, such as \"call\", have none", at)
		}
		seen[e.Key] = true
		c.Effects = append(c.Effects, e)
		return err == nil
	})
	return err
}

// isTime reports whether a number is a plausible length of time, of some hundred years at most.
func isTime(ms float64) bool { return ms >= 0 && ms < 1e13 }

// keyForm matches positions.
var keyForm = regexp.MustCompile(`^[0-9]+([./][0-9a-z]+)*$`)

func (r *reader) effect(at string, raw []byte, e *Effect) error {
	return r.object(at, raw, fields{
		"key":        r.into(at+": key", &e.Key, "a string"),
		"kind":       r.into(at+": kind", &e.Kind, "a string"),
		"name":       r.into(at+": name", &e.Name, "a string"),
		"args":       r.raw(&e.Args),
		"note":       r.into(at+": note", &e.Note, "a string"),
		"result":     r.raw(&e.Result),
		"failure":    r.failure(at+": failure", &e.Failure),
		"startMs":    r.into(at+": startMs", &e.StartMs, "a number"),
		"durationMs": r.into(at+": durationMs", &e.DurationMs, "a number"),
		"file":       r.into(at+": file", &e.File, "a string"),
		"line":       r.into(at+": line", &e.Line, "a number"),
	})
}

// check checks the relations between members.
func (r *reader) check(c *Case) error {
	whole := bytes.TrimSpace(r.data)
	if strings.TrimSpace(c.Tool) == "" {
		return r.wrong(whole, "tool: want the name of the tool, have none")
	}
	if c.Arguments == nil {
		c.Arguments = json.RawMessage("{}")
	}
	if kind := jsonscan.Kind(c.Arguments); kind != "an object" {
		return r.wrong(jsonscan.Get(whole, "arguments"), "arguments: want an object, have %s", kind)
	}
	if !isTime(c.DurationMs) {
		return r.wrong(jsonscan.Get(whole, "durationMs"), "durationMs: want milliseconds from 0, have %g", c.DurationMs)
	}
	if c.Failure != nil && (c.Output != nil || c.Content != nil) {
		return r.wrong(jsonscan.Get(whole, "failure"), "failure: a run that failed has no output")
	}
	if c.Failure == nil && c.Output == nil && c.Content == nil {
		return r.wrong(whole, "want output or failure, have neither")
	}
	known := map[string]bool{}
	for i := range c.Effects {
		known[c.Effects[i].Key] = true
	}
	for _, key := range c.Order {
		if !known[key] {
			return r.wrong(jsonscan.Get(whole, "order"), "order: no effect has the key %q", key)
		}
	}
	return nil
}
