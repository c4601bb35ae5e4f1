package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go"
)

// argUses is which arguments policies read.
type argUses struct {
	all    bool            // as a whole: context itself
	record bool            // context.arguments
	keys   map[string]bool // arg_NAME and arg_NAME_present
}

func (u *argUses) none() bool { return !u.all && !u.record && len(u.keys) == 0 }

func (u *argUses) add(o argUses) {
	u.all, u.record = u.all || o.all, u.record || o.record
	for k := range o.keys {
		u.note(k)
	}
}

func (u *argUses) note(key string) {
	if u.keys == nil {
		u.keys = map[string]bool{}
	}
	u.keys[key] = true
}

const presence = "_present"

// values returns the members of the context for arguments; nil when no policy reads any.
// Ambiguous arguments are an error.
func (u *argUses) values(arguments json.RawMessage) (cedar.RecordMap, error) {
	if u.none() {
		return nil, nil
	}
	given := map[string]any{}
	if len(bytes.TrimSpace(arguments)) > 0 {
		d := json.NewDecoder(bytes.NewReader(arguments))
		d.UseNumber()
		r := reader{Decoder: d, uses: u}
		v, err := r.value(0)
		if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case nil:
		case map[string]any:
			given = v
		default:
			return nil, fmt.Errorf("the arguments are not a JSON object")
		}
	}
	args := map[string]argument{}
	for name, v := range given {
		if a := argumentOf(v); a.value != nil {
			args[name] = a
		}
	}
	return u.context(args), nil
}

// argument is the Cedar value of one argument.
type argument struct {
	value  cedar.Value
	scalar bool
}

func argumentOf(v any) argument {
	value, ok := toValue(v)
	if !ok {
		return argument{}
	}
	switch value.(type) {
	case cedar.String, cedar.Boolean, cedar.Long:
		return argument{value, true}
	}
	return argument{value, false}
}

// context returns the members of the context for arguments.
func (u *argUses) context(args map[string]argument) cedar.RecordMap {
	out := cedar.RecordMap{}
	record := cedar.RecordMap{}
	for name, a := range args {
		key := "arg_" + name
		if a.scalar && (u.all || u.keys[key]) {
			out[cedar.String(key)] = a.value
		}
		record[cedar.String(name)] = a.value
	}
	for name, a := range args { // after the scalars, so that no scalar argument named NAME_present takes the place of these
		if key := "arg_" + name + presence; !a.scalar && (u.all || u.keys[key]) {
			out[cedar.String(key)] = cedar.True
		}
	}
	if u.all || u.record {
		out["arguments"] = cedar.NewRecord(record)
	}
	return out
}

// reader decodes arguments and refuses duplicate members, and members whose name differs only in
// case from one that policies read.
type reader struct {
	*json.Decoder
	uses *argUses
}

const maxDepth = 200

func (r reader) value(depth int) (any, error) {
	t, err := r.Token()
	if err != nil {
		return nil, fmt.Errorf("the arguments are not valid JSON")
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("the arguments are nested too deep")
	}
	switch t {
	case json.Delim('{'):
		return r.object(depth)
	case json.Delim('['):
		list := []any{}
		for r.More() {
			v, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := r.Token()
		return list, err
	}
	return t, nil
}

func (r reader) object(depth int) (any, error) {
	object := map[string]any{}
	for r.More() {
		t, err := r.Token()
		if err != nil {
			return nil, fmt.Errorf("the arguments are not valid JSON")
		}
		name, _ := t.(string)
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("an argument is given twice")
		}
		if depth == 0 && r.misspells(name) {
			return nil, fmt.Errorf("the name of an argument differs in case from the one in policies")
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		object[name] = v
	}
	_, err := r.Token()
	return object, err
}

// misspells reports whether a decoder that ignores case would take name for an argument that
// policies read under another spelling.
func (r reader) misspells(name string) bool {
	for key := range r.uses.keys {
		known := strings.TrimPrefix(key, "arg_")
		for _, k := range []string{known, strings.TrimSuffix(known, presence)} {
			if k != name && strings.EqualFold(k, name) && !r.uses.keys["arg_"+name] && !r.uses.keys["arg_"+name+presence] {
				return true
			}
		}
	}
	return false
}
