package definition

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// A rule says what a value has to be. It returns the value as it is to be listed: v
// itself when it is right, another one in its place, or nil to leave it out.
type rule func(r *repair, at string, v json.RawMessage) json.RawMessage

// A repair is one definition on its way through the rules.
type repair struct {
	notes []string
	more  int // notes that were not kept
}

// What is kept of the notes on one definition.
const (
	maxNotes = 8
	maxNote  = 300 // bytes
)

func (r *repair) note(at, format string, args ...any) {
	if len(r.notes) == maxNotes {
		r.more++
		return
	}
	note := at + ": " + fmt.Sprintf(format, args...)
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") + "..."
	}
	r.notes = append(r.notes, note)
}

// leaveOut notes that the value is not of the type that it must have.
func (r *repair) leaveOut(at, want string, v json.RawMessage) json.RawMessage {
	r.note(at, "want %s, have %s; left out", want, jsonscan.Kind(v))
	return nil
}

// members is the rule of an object some of whose members have rules.
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

// elements is the rule of an array: what its rule leaves out is taken from the array.
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

// needs adds to the rule of an object that it is nothing without a text as its member.
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
	return r.leaveOut(at, "true or false", v)
}

func object(r *repair, at string, v json.RawMessage) json.RawMessage {
	if v[0] == '{' {
		return v
	}
	return r.leaveOut(at, "an object", v)
}

// number takes what fits into a double: a larger one is infinite to most clients.
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

// moment is the form of date and time that clients take; time.Parse is laxer.
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
