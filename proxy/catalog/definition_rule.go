package catalog

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// A rule checks a value and returns the value to list: v itself if it is valid, a
// replacement, or nil to leave it out.
type rule func(r *repair, at string, v json.RawMessage) json.RawMessage

// A repair is the notes on the repair of one definition.
type repair struct {
	notes []string
	more  int // number of notes beyond maxNotes
}

// Bounds of the notes on one definition.
const (
	maxNotes = 8
	maxNote  = 300 // bytes
)

func (r *repair) note(at, format string, args ...any) {
	if len(r.notes) == maxNotes {
		r.more++
		return
	}
	r.notes = append(r.notes, display.ClipText(at+": "+fmt.Sprintf(format, args...), maxNote))
}

// leaveOut notes that a value has the wrong type, and returns nil.
func (r *repair) leaveOut(at, want string, v json.RawMessage) json.RawMessage {
	r.note(at, "want %s, have %s; left out", want, jsonscan.Kind(v))
	return nil
}

// members returns the rule for an object with rules for some of its members.
func members(rules map[string]rule) rule {
	return func(r *repair, at string, v json.RawMessage) json.RawMessage {
		if len(v) == 0 || v[0] != '{' {
			return r.leaveOut(at, "an object", v)
		}
		return jsonscan.Map(v, func(key string, value json.RawMessage) json.RawMessage {
			if rule := rules[key]; rule != nil {
				return rule(r, join(at, key), value)
			}
			return value
		})
	}
}

// elements returns the rule for an array: elements that each leaves out are removed.
func elements(each rule) rule {
	return func(r *repair, at string, v json.RawMessage) json.RawMessage {
		if len(v) == 0 || v[0] != '[' {
			return r.leaveOut(at, "an array", v)
		}
		kept, changed, n := [][]byte{}, false, 0
		jsonscan.Elements(v, func(value []byte) bool {
			now := each(r, fmt.Sprintf("%s[%d]", at, n), value)
			changed = changed || !same(now, value)
			if n++; now != nil {
				kept = append(kept, now)
			}
			return true
		})
		if !changed {
			return v
		}
		return jsonscan.Array(kept...)
	}
}

// needs adds to the rule of an object that it is left out without a string as the member key.
func needs(key string, object rule) rule {
	return func(r *repair, at string, v json.RawMessage) json.RawMessage {
		if len(v) > 0 && v[0] == '{' && !isText(jsonscan.Get(v, key)) {
			r.note(at, "it has no %s; left out", key)
			return nil
		}
		return object(r, at, v)
	}
}

func same(a, b json.RawMessage) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

func isText(v []byte) bool { return len(v) > 0 && v[0] == '"' }

func text(r *repair, at string, v json.RawMessage) json.RawMessage {
	if isText(v) {
		return v
	}
	return r.leaveOut(at, "a string", v)
}

func truth(r *repair, at string, v json.RawMessage) json.RawMessage {
	if v[0] == 't' || v[0] == 'f' {
		return v
	}
	return r.leaveOut(at, "a boolean", v)
}

func object(r *repair, at string, v json.RawMessage) json.RawMessage {
	if v[0] == '{' {
		return v
	}
	return r.leaveOut(at, "an object", v)
}

// number accepts numbers in the range of a double: a larger one is infinite in most clients.
func number(lowest, highest float64) rule {
	return func(r *repair, at string, v json.RawMessage) json.RawMessage {
		n, err := strconv.ParseFloat(string(v), 64)
		switch {
		case jsonscan.Kind(v) != "a number":
			return r.leaveOut(at, "a number", v)
		case err != nil || n < lowest || n > highest:
			r.note(at, "%.40s is out of range; left out", v)
			return nil
		}
		return v
	}
}

func oneOf(words ...string) rule {
	return func(r *repair, at string, v json.RawMessage) json.RawMessage {
		if isText(v) && slices.Contains(words, jsonscan.Text(v)) {
			return v
		}
		r.note(at, "want one of %s, have %.40s; left out", strings.Join(words, ", "), v)
		return nil
	}
}

// moment is the form of date and time that clients accept; time.Parse accepts more.
var moment = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

func instant(r *repair, at string, v json.RawMessage) json.RawMessage {
	if isText(v) && moment.MatchString(jsonscan.Text(v)) {
		if _, err := time.Parse(time.RFC3339, jsonscan.Text(v)); err == nil {
			return v
		}
	}
	r.note(at, "want a date and time such as 2025-01-12T15:00:58Z, have %.40s; left out", v)
	return nil
}
