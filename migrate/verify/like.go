package verify

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// CompareClean returns the differences of a run in the clean style from the recorded run. A
// recorded run that failed is not compared. Of one that completed, the result and the calls
// are compared, with the tolerance of docs/migrate.md: a value is equal to its text, a
// value that was <no value> or null may be empty or missing, numbers and JSON in texts are
// compared by value, and error texts are not compared.
func CompareClean(have, want Outcome) (diffs []Difference) {
	differ := func(what, h, w string) { diffs = append(diffs, Difference{what, h, w}) }
	switch {
	case want.Refused() != "":
		if have.Refused() == "" {
			differ("refused", "", want.Refused())
		}
		return diffs
	case have.Refused() != "":
		differ("refused", have.Refused(), "")
		return diffs
	case want.Status != "completed":
		return nil
	case have.Status != "completed":
		differ("status", have.Result.Text, want.Status)
		return diffs
	}
	if !want.raced() && !like(decoded(have.Result.Structured), decoded(want.Result.Structured)) {
		differ("structured", canonical(have.Result.Structured), canonical(want.Result.Structured))
	}
	if !sameCalls(have.Trace, want.Trace) {
		differ("calls", have.calls(""), want.calls(""))
	}
	return diffs
}

func decoded(data json.RawMessage) (v any) {
	_ = json.Unmarshal(data, &v) // no data is nil
	return v
}

// sameCalls reports whether the same calls and questions were made, in any order.
func sameCalls(have, want []Call) bool {
	if len(have) != len(want) {
		return false
	}
	rest := slices.Clone(want)
	for _, c := range have {
		i := slices.IndexFunc(rest, func(w Call) bool {
			return c.Kind == w.Kind && c.Tool == w.Tool && likeText(c.Message, w.Message) && like(decoded(c.Args), decoded(w.Args))
		})
		if i < 0 {
			return false
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return true
}

// like reports whether a value is equal to a recorded one, with the tolerance of CompareClean.
func like(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		return likeObject(have, want)
	case []any:
		list, ok := have.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range list {
			if !like(list[i], want[i]) {
				return false
			}
		}
		return true
	case string: // null is no empty text
		return have != nil && likeText(textOf(have), want)
	case nil:
		return empty(have)
	case bool:
		b, err := strconv.ParseBool(textOf(have))
		return err == nil && b == want
	}
	return likeText(textOf(have), fmt.Sprint(want))
}

func likeObject(have any, want map[string]any) bool {
	object, ok := have.(map[string]any)
	if !ok {
		return len(want) == 0 && have == nil
	}
	for k, w := range want {
		h, there := object[k]
		if k != "error" && !(there && like(h, w)) && !(!there && likeText("", textOf(w))) {
			return false
		}
	}
	_, isText := want["text"]
	for k := range object {
		if _, known := want[k]; !known && !(isText && k == "content") { // of a tool without structured content
			return false
		}
	}
	return true
}

func empty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == nil
}

func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	out, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(out)
}

// likeText compares texts by their words: numbers by value, without the punctuation of JSON and of Go's
// lists and maps, and in any order in a text with such punctuation.
func likeText(have, want string) bool {
	h, hs := words(have)
	w, ws := words(want)
	if hs || ws {
		sort.Strings(h)
		sort.Strings(w)
	}
	return slices.Equal(h, w)
}

var marks = strings.NewReplacer("<no value>", "", "<nil>", "", "map[", "[", `\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\u2028`, "\u2028", `\x`, `\u00`, `\n`, " ", `\"`, `"`)

// engineWords matches the prefix of the legacy engine before the error text of a tool.
var engineWords = regexp.MustCompile(`(tool call failed: tool \S+ in step \S+: )?tool execution failed: `)

func words(s string) (list []string, structured bool) {
	s = marks.Replace(engineWords.ReplaceAllString(s, ""))
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \n\t[]{}\":,", r) }) {
		if f, err := strconv.ParseFloat(word, 64); err == nil {
			word = strconv.FormatFloat(f, 'g', -1, 64)
		}
		if word != "null" {
			list = append(list, word)
		}
	}
	return list, strings.ContainsAny(s, "[{")
}
