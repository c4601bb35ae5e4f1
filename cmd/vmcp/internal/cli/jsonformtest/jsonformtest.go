// Package jsonformtest compares what commands print with the forms in their help.
package jsonformtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// form is one form in a help: an object, a list, a map, or a scalar.
type form struct {
	members  map[string]*form
	optional map[string]bool
	list     *form
	values   *form
	word     string
}

var (
	legend = regexp.MustCompile(`(?m)^With --output json \(.*\):\n\n`)
	label  = regexp.MustCompile(`^(with --[a-z]+: |[A-Z]+ = )`)
)

// Check returns an error when an output has none of the forms in the long help of its command; it says how it differs from each.
func Check(help string, output []byte) error {
	forms, names, err := read(help)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(output))
	for i := 0; ; i++ {
		var v any
		switch err := d.Decode(&v); {
		case err == io.EOF && i > 0:
			return nil
		case err != nil:
			return fmt.Errorf("the output is not JSON: %w", err)
		}
		var all []error
		for _, f := range forms {
			err := f.check("$", v, names)
			if err == nil {
				all = nil
				break
			}
			all = append(all, err)
		}
		if err := errors.Join(all...); err != nil {
			return err
		}
	}
}

// read reads the forms in a help.
func read(help string) (forms []*form, names map[string]*form, err error) {
	at := legend.FindStringIndex(help)
	if at == nil {
		return nil, nil, errors.New("the help does not say which form the JSON has")
	}
	names = map[string]*form{}
	for block := range strings.SplitSeq(help[at[1]:], "\n\n") {
		var text string
		for line := range strings.Lines(block) {
			text += strings.TrimSpace(line)
		}
		name := label.FindString(text)
		r := &reader{text: text[len(name):]}
		f := r.form()
		if r.text != "" || r.wrong {
			return nil, nil, fmt.Errorf("the help has no form at %q of %q", r.text, text)
		}
		if label, named := strings.CutSuffix(name, " = "); named {
			names[label] = f
		}
		if name != "PROBLEM = " {
			forms = append(forms, f)
		}
	}
	return forms, names, nil
}

// reader parses a form.
type reader struct {
	text  string
	wrong bool
}

func (r *reader) take(prefix string) bool {
	rest, ok := strings.CutPrefix(r.text, prefix)
	r.text = rest
	return ok
}

func (r *reader) must(prefix string) { r.wrong = !r.take(prefix) || r.wrong }

var word = regexp.MustCompile(`^[A-Za-z]+`)

func (r *reader) form() *form {
	switch {
	case r.take("{NAME:"):
		f := &form{values: r.form()}
		r.must("}")
		return f
	case r.take("["):
		f := &form{list: r.form()}
		r.must("]")
		return f
	case !r.take("{"):
		f := &form{word: word.FindString(r.text)}
		r.wrong = r.wrong || f.word == ""
		r.text = r.text[len(f.word):]
		return f
	}
	f := &form{members: map[string]*form{}, optional: map[string]bool{}}
	for {
		r.must(`"`)
		name, rest, _ := strings.Cut(r.text, `"`)
		r.text = rest
		f.optional[name] = r.take("?")
		f.members[name] = &form{word: "string"}
		if r.take(":") {
			f.members[name] = r.form()
		}
		if r.wrong || !r.take(",") {
			break
		}
	}
	r.must("}")
	return f
}

// check returns an error that says where a value differs from the form.
func (f *form) check(at string, v any, names map[string]*form) error {
	switch {
	case f.word != "":
		return checkWord(at, f.word, v, names)
	case f.list != nil:
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("%s: the help says a list, the output has %v", at, v)
		}
		for i, one := range list {
			if err := f.list.check(fmt.Sprintf("%s[%d]", at, i), one, names); err != nil {
				return err
			}
		}
		return nil
	}
	object, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: the help says an object, the output has %v", at, v)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		one := f.values
		if one == nil {
			one = f.members[name]
		}
		if one == nil {
			return fmt.Errorf("%s: the output has a member %q that the help does not name", at, name)
		}
		if err := one.check(at+"."+name, object[name], names); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		if _, has := object[name]; !has && !f.optional[name] {
			return fmt.Errorf("%s: the help names a member %q that the output does not have", at, name)
		}
	}
	return nil
}

func checkWord(at, word string, v any, names map[string]*form) error {
	ok := false
	switch word {
	case "any":
		return nil
	case "string":
		_, ok = v.(string)
	case "number":
		_, ok = v.(float64)
	case "boolean":
		_, ok = v.(bool)
	case "time":
		text, _ := v.(string)
		_, err := time.Parse(time.RFC3339, text)
		ok = err == nil
	default:
		if names[word] == nil {
			return fmt.Errorf("%s: the help does not say what %s is", at, word)
		}
		return names[word].check(at, v, names)
	}
	if !ok {
		return fmt.Errorf("%s: the help says %s, the output has %v", at, word, v)
	}
	return nil
}
