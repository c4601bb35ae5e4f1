package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/config"
)

var files = []string{
	"",
	"# only a comment\n",
	"name: office\n",
	"name: office",
	"name: office\nbackends:\n",
	"name: office\nbackends:",
	"name: office\nbackends: # none yet\nlisten: :1\n",
	"backends: []\nname: office\n",
	"backends: [ ]",
	"backends: [{name: a, url: 'http://x/mcp'}]\n",
	"backends: [\n  {name: a, args: [\"]\", '#', x#y]}, # one ]\n  {name: b, command: c},\n]\nname: office\n",
	"backends:\n  - name: a\n    url: http://x/mcp\n\n# of the name\nname: office\n",
	"backends:\n- name: a\n  url: http://x/mcp\nname: office\n",
	"backends:\n  - name: a\n    url: http://x/mcp",
	"backends:\n  -\n    name: a\n    url: http://x/mcp\n  # in between\n  - {name: b, command: x}\n  # at the end\nlimits: {calls: 3}\n",
	"backends:\n    - url: http://x/mcp\n      name: a # first\n      env:\n          TEXT: |\n            # no comment\n            more\n\n          OTHER: x\n\n\n",
	"\xef\xbb\xbfbackends:\n  - name: ä\n    args: [ü, \"ß\"]\nname: ö\n",
	"{\"name\": \"json\", \"backends\": [{\"name\": \"a\", \"url\": \"http://x/mcp\"}]}\n",
	"backends: &all\n  - &one\n    name: a\n    url: http://x/mcp\n",
}

var backends = []config.EditedBackend{
	{Name: "new", URL: "https://${HOST:-h}/mcp", Headers: map[string]string{"Authorization": "Bearer ${TOKEN}", "X: odd": "a # b"}, Transport: "sse", Timeout: "5s"},
	{Name: "new", Command: "npx", Args: []string{"-y", "@scope/pkg", "", "a b", "1", "true", "null", "~", "a: b", "- x", "#x", "\"q\"", "two\nlines", "ümläut", "{x}", "[y]", "*z", "&a", "%p", "a,b"},
		Env: map[string]string{"A": "1", "B": "", "C": "yes", "D": " blank "}, Cwd: "a b/c", Disabled: true, Prefix: new(string)},
	{Name: "new", Command: "C:\\Program Files\\x.exe"},
}

// An added backend is parsed with the intended values, everything else is unchanged, and removing it restores the
// same bytes.
func TestAddAndRemove(t *testing.T) {
	for _, text := range files {
		for _, text := range []string{text, strings.ReplaceAll(text, "\n", "\r\n")} {
			for _, b := range backends {
				t.Run("", func(t *testing.T) { addAndRemove(t, []byte(text), b) })
			}
		}
	}
}

func addAndRemove(t *testing.T, data []byte, b config.EditedBackend) {
	before := parsed(t, data)
	added, err := config.Add(bytes.Clone(data), b)
	if err != nil {
		t.Fatalf("Add to %q: %v", data, err)
	}
	after := parsed(t, added)
	list, _ := after["backends"].([]any)
	if len(list) == 0 {
		t.Fatalf("%q became %q", data, added)
	}
	if diff := cmp.Diff(fieldsOf(b), list[len(list)-1]); diff != "" {
		t.Fatalf("%q became %q (-want +have):\n%s", data, added, diff)
	}
	after["backends"] = list[:len(list)-1]
	old, _ := before["backends"].([]any)
	if !cmp.Equal(append([]any{}, old...), append([]any{}, list[:len(list)-1]...)) {
		t.Errorf("%q became %q", data, added)
	}
	if bytes.Contains(data, []byte("\r\n")) && bytes.Count(added, []byte("\n")) != bytes.Count(added, []byte("\r\n")) {
		t.Errorf("mixed line ends: %q", added)
	}
	removed, err := config.Remove(added, b.Name)
	if err != nil || !bytes.Equal(removed, data) {
		t.Errorf("%q became %q and then %q, %v", data, added, removed, err)
	}
}

func parsed(t *testing.T, data []byte) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal(data, &out); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	return out
}

// fieldsOf decodes a backend with a YAML parser.
func fieldsOf(b config.EditedBackend) map[string]any {
	out := map[string]any{"name": b.Name}
	for name, value := range map[string]string{"url": b.URL, "transport": b.Transport, "command": b.Command, "cwd": b.Cwd, "timeout": b.Timeout} {
		if value != "" {
			out[name] = value
		}
	}
	for name, members := range map[string]map[string]string{"headers": b.Headers, "env": b.Env} {
		if len(members) > 0 {
			all := map[string]any{}
			for k, v := range members {
				all[k] = v
			}
			out[name] = all
		}
	}
	if len(b.Args) > 0 {
		var args []any
		for _, a := range b.Args {
			args = append(args, a)
		}
		out["args"] = args
	}
	if b.Prefix != nil {
		out["prefix"] = *b.Prefix
	}
	if b.Disabled {
		out["disabled"] = true
	}
	return out
}

// Any of several backends can be removed.
func TestRemoveEach(t *testing.T) {
	for _, text := range files {
		names, err := config.Names([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			removed, err := config.Remove([]byte(text), name)
			if err != nil {
				t.Errorf("%q without %s: %v", text, name, err)
				continue
			}
			left, err := config.Names(removed)
			if want := slices.Delete(slices.Clone(names), i, i+1); err != nil || !slices.Equal(left, want) && len(left)+len(want) > 0 {
				t.Errorf("%q without %s became %q: %q, %v", text, name, removed, left, err)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"backends: [{name: new}]", "there is a backend new already"},
		{"backends: x", "line 1: backends is no list"},
		{"a: &a [{name: x}]\nbackends: *a\n", "line 2: backends is an alias; edit the anchored list"},
		{"{name: x}", "line 1: the file is one mapping in braces without backends; add backends: [] to it"},
		{"- a", "line 1: want a mapping"},
	} {
		if _, err := config.Add([]byte(tt.text), config.EditedBackend{Name: "new", Command: "x"}); err == nil || err.Error() != tt.want {
			t.Errorf("Add to %q: %v, want %s", tt.text, err, tt.want)
		}
	}
	if _, err := config.Remove([]byte("backends: []"), "x"); !errors.Is(err, config.ErrNone) {
		t.Errorf("Remove of none: %v", err)
	}
	if _, err := config.Add([]byte("a: ["), config.EditedBackend{}); err == nil {
		t.Error("a file that does not parse is changed")
	}
}

func ExampleAdd() {
	data, err := config.Add([]byte("name: office # ours\n"), config.EditedBackend{Name: "files", Command: "npx", Args: []string{"-y", "files"}})
	fmt.Printf("%s%v\n", data, err)
	// Output:
	// name: office # ours
	// backends:
	//   - name: files
	//     command: npx
	//     args: [-y, files]
	// <nil>
}
