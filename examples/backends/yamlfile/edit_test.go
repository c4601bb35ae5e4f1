package yamlfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// setText is set on a text.
func setText(text, path string, value json.RawMessage) (string, error) {
	steps, err := parsePath(path)
	if err != nil {
		return "", err
	}
	s, err := parse([]byte(text), 0)
	if err != nil {
		return "", err
	}
	v, err := nodeOf(value)
	if err != nil {
		return "", err
	}
	p, err := s.find(steps, stay)
	if err != nil {
		return "", err
	}
	out, err := s.edit(p, v)
	return string(out), err
}

func getText(text, path string) (string, error) {
	steps, err := parsePath(path)
	if err != nil {
		return "", err
	}
	s, err := parse([]byte(text), 0)
	if err != nil {
		return "", err
	}
	p, err := s.find(steps, follow)
	if err != nil {
		return "", err
	}
	if p.node == nil {
		return "", p.missing()
	}
	b, err := appendJSON(nil, p.node)
	return string(b), err
}

func TestSetWritesLikeTheRest(t *testing.T) {
	for _, tt := range []struct{ name, in, path, value, want string }{
		{"comment after it", "a: 1   # one\nb: 2\n", "a", `10`, "a: 10   # one\nb: 2\n"},
		{"single quotes", "a: 'x' # c\n", "a", `"it's"`, "a: 'it''s' # c\n"},
		{"double quotes", `a: "x"`, "a", `"tab\t"`, `a: "tab\t"`},
		{"needs quotes", "a: x\n", "a", `"yes"`, "a: 'yes'\n"},
		{"number as text", "a: x\n", "a", `"8080"`, "a: '8080'\n"},
		{"image", "a: x\n", "a", `"nginx:1.27"`, "a: nginx:1.27\n"},
		{"text with a colon", "a: x\n", "a", `"b: c"`, "a: 'b: c'\n"},
		{"big number", "a: 1\n", "a", `9007199254740993`, "a: 9007199254740993\n"},
		{"null", "a: 1\n", "a", `null`, "a: null\n"},
		{"empty value", "a: # none\nb: 1\n", "a", `"x"`, "a: x # none\nb: 1\n"},
		{"in a flow list", "a: [1, 2 , 3]\n", "a[1]", `"x, y"`, "a: [1, 'x, y' , 3]\n"},
		{"in a flow mapping", "a: {b: 1, c: 2} # d\n", "a.b", `true`, "a: {b: true, c: 2} # d\n"},
		{"literal", "a: |\n  one\n  two\nb: 1\n", "a", `"1\n2\n\n3\n"`, "a: |\n  1\n  2\n\n  3\nb: 1\n"},
		{"literal to one line", "a: |\n  one\n\nb: 1\n", "a", `"x"`, "a: x\n\nb: 1\n"},
		{"lines of plain text", "a: one\n  two # c\nb: 1\n", "a", `"x"`, "a: x # c\nb: 1\n"},
		{"anchor stays", "a: &n 1\nb: *n\n", "a", `2`, "a: &n 2\nb: *n\n"},
		{"alias goes", "a: &n 1\nb: *n # c\n", "b", `2`, "a: &n 1\nb: 2 # c\n"},
		{"own tag stays", "a: !Ref x\n", "a", `"v"`, "a: !Ref v\n"},
		{"wrong tag goes", "a: !!int 1\n", "a", `"v"`, "a: v\n"},
		{"value to mapping", "a: 1 # c\n", "a", `{"w":1,"v":["b"]}`, "a: {w: 1, v: [b]} # c\n"},
		{"mapping to mapping", "a:\n  b: 1 # c\nd: 1\n", "a", `{"w":{"z":[]},"v":["b",{"k":1,"l":2}]}`,
			"a:\n  w:\n    z: []\n  v:\n    - b\n    - k: 1\n      l: 2\nd: 1\n"},
		{"mapping to value", "a:\n  b: 1\nd: 1\n", "a", `7`, "a: 7\nd: 1\n"},
		{"list in its place", "a:\n- 1\n- 2\nb: 3\n", "a", `[3]`, "a:\n- 3\nb: 3\n"},
		{"element of a list", "- a: 1\n  b: 2\n- c\n", "[0].b", `3`, "- a: 1\n  b: 3\n- c\n"},
		{"line breaks of Windows", "a: 1\r\nb: 2 # c\r\n", "b", `3`, "a: 1\r\nb: 3 # c\r\n"},
		{"byte order mark", "\ufeffa: 1\nb: 2\n", "a", `3`, "\ufeffa: 3\nb: 2\n"},
		{"letters of several bytes", "ä: {ü: ß, ö: 1}\n", "ä.ö", `2`, "ä: {ü: ß, ö: 2}\n"},

		{"new key", "a:\n  b: 1 # c\n\n# next\nd: 2\n", "a.x", `"v"`, "a:\n  b: 1 # c\n  x: v\n\n# next\nd: 2\n"},
		{"new key at the end", "a: 1", "b", `[1,{"c":2}]`, "a: 1\nb:\n  - 1\n  - c: 2"},
		{"new keys on the way", "a: 1\n", "b.c.d", `2`, "a: 1\nb:\n  c:\n    d: 2\n"},
		{"new key that needs quotes", "a: 1\n", `["b: c"]`, `2`, "a: 1\n'b: c': 2\n"},
		{"new key in a flow mapping", "a: {b: 1 } # c\n", "a.x", `2`, "a: {b: 1, x: 2 } # c\n"},
		{"new key in an empty mapping", "a: {} # c\n", "a.x", `2`, "a: {x: 2} # c\n"},
		{"new key below nothing", "a: # c\nb: 1\n", "a.x", `2`, "a: # c\n  x: 2\nb: 1\n"},
		{"new key after a literal", "a:\n  b: |+\n    x\n\nc: 1\n", "a.v", `2`, "a:\n  b: |+\n    x\n\n  v: 2\nc: 1\n"},
		{"new element", "a:\n- 1 # one\n# two\nb: 1\n", "a[1]", `{"x":1}`, "a:\n- 1 # one\n- x: 1\n# two\nb: 1\n"},
		{"new element of a flow list", "a: [1, 2]\n", "a[2]", `3`, "a: [1, 2, 3]\n"},
		{"empty file", "", "a.b", `1`, "a:\n  b: 1\n"},
		{"only a comment", "# c\n", "a", `1`, "# c\na: 1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := setText(tt.in, tt.path, json.RawMessage(tt.value))
			if err != nil || got != tt.want {
				t.Errorf("set %s = %s in\n%s\n got %q, %v\nwant %q", tt.path, tt.value, tt.in, got, err, tt.want)
			}
		})
	}
}

// paths returns the paths of all values below n that a set can reach.
func paths(n *node, at []step) []string {
	var out []string
	if len(at) > 0 {
		out = append(out, pathText(at))
	}
	below := func(s step, c *node) { out = append(out, paths(c, append(append([]step{}, at...), s))...) }
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].ShortTag() != "!!merge" {
				below(step{n.Content[i].Value, -1}, n.Content[i+1])
			}
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			below(step{"", i}, c)
		}
	}
	return out
}

var values = []string{
	`1`, `-2.5e3`, `true`, `null`, `""`, `"x"`, `"two words"`, `"no"`, `"# no comment"`, `"a: b"`, `"- x"`, `"it's \"q\""`, `" space "`,
	`"line\nline\n"`, `"\n\n x"`, `"{x}"`, `"a,b"`, `"[x"`, `"*x"`, `"&x"`, `"!x"`, `"%x"`, `"@x"`, "\"`x\"", `"?"`, `"-"`, `"---"`, `"~"`, `"a #b"`, `"a:"`,
	`"\u0007\u0085\u00a0\u2028\ufeff"`, `"😀 é"`, `"0x1f"`, `"1:30"`, `"2026-01-02"`, `"<<"`, `"=x"`, `"\\"`, `"a\tb"`, `"x "`,
	`[]`, `{}`, `[1,"a",null]`, `{"k":"v","l":[1,{"m":"n: o"}]}`, `[[1],[[2]]]`, `{"a: b":{"":1}}`,
}

// Whatever is set anywhere: get returns it, and the lines before and after the old value
// are the same bytes as before. The corpus is in testdata/edit.
func TestSetTouchesNothingElse(t *testing.T) {
	files, err := filepath.Glob("testdata/edit/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, err := parse(text, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i, path := range paths(s.root(), nil) {
				if i%4 != 0 && !testmode.Thorough() {
					continue
				}
				for _, v := range values {
					checkSet(t, string(text), path, v)
				}
			}
		})
	}
}

func checkSet(t *testing.T, text, path, value string) {
	t.Helper()
	out, err := setText(text, path, json.RawMessage(value))
	if err != nil {
		if !strings.Contains(err.Error(), "is an alias") && !usedElsewhere(text, path) {
			t.Errorf("set %s = %s: %v", path, value, err)
		}
		return
	}
	got, err := getText(out, path)
	if err != nil || !equalJSON(got, value) {
		t.Errorf("set %s = %s: get returns %s, %v in\n%s", path, value, got, err, out)
	}
	first, last := linesOf(t, text, path)
	lines, now := strings.SplitAfter(text, "\n"), strings.SplitAfter(out, "\n")
	for i := range first - 1 {
		if i >= len(now) || now[i] != lines[i] {
			t.Fatalf("set %s = %s: line %d changed in\n%s", path, value, i+1, out)
		}
	}
	for i := 1; i <= len(lines)-last; i++ {
		if i > len(now) || now[len(now)-i] != lines[len(lines)-i] {
			t.Fatalf("set %s = %s: line %d changed in\n%s", path, value, len(lines)-i+1, out)
		}
	}
}

// usedElsewhere reports whether the value holds an anchor: one that is replaced as a
// whole may leave aliases without it, so that such a set is refused.
func usedElsewhere(text, path string) bool {
	first, _ := getText(text, path)
	return first != "" && strings.Contains(text, "&")
}

// linesOf returns the lines, from 1, of the value and its key.
func linesOf(t *testing.T, text, path string) (first, last int) {
	t.Helper()
	steps, err := parsePath(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parse([]byte(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.find(steps, stay)
	if err != nil {
		t.Fatal(err)
	}
	end := s.end(p.node, levelOf(p.parents))
	return max(p.node.Line-1, 1), 1 + bytes.Count(s.text[:end], []byte("\n"))
}

func equalJSON(a, b string) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, []byte(a)) == nil && json.Compact(&y, []byte(b)) == nil && sameValue(x.Bytes(), y.Bytes())
}

// sameValue ignores how strings are escaped.
func sameValue(a, b []byte) bool {
	n, err := nodeOf(a)
	m, err2 := nodeOf(b)
	return err == nil && err2 == nil && same(n, m)
}

// Random sequences of sets behave as the same sets on a plain value.
func TestManySetsOneAfterTheOther(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		text := "# head\nroot: # the root\n  k0: 0 # zero\n# tail\n"
		want := map[string]string{"root.k0": "0"}
		for range 40 {
			path := fmt.Sprintf("root.k%d", r.IntN(12))
			value := values[r.IntN(len(values))]
			out, err := setText(text, path, json.RawMessage(value))
			if err != nil {
				t.Fatalf("seed %d: set %s = %s: %v in\n%s", seed, path, value, err, text)
			}
			text, want[path] = out, value
		}
		for path, value := range want {
			if got, err := getText(text, path); err != nil || !equalJSON(got, value) {
				t.Errorf("seed %d: get %s: got %s, %v, want %s in\n%s", seed, path, got, err, value, text)
			}
		}
		for _, c := range []string{"# head\nroot: # the root\n", "# tail\n"} {
			if !strings.Contains(text, c) {
				t.Errorf("seed %d: %q is gone from\n%s", seed, c, text)
			}
		}
	}
}

// FuzzSet looks for texts where a set breaks the file or panics.
func FuzzSet(f *testing.F) {
	f.Add("a: 1 # c\nb: [x, {y: 'z'}]\n", "b[1].y", `"v"`)
	f.Add("a: |\n  x\n\nb:\n- c\n", "b[0]", `{"k":[1]}`)
	f.Add("? a\n: - &x b\n  - *x\n", "a[0]", `2`)
	f.Add("?", "0", "0")   // a null after the last line
	f.Add("0", "[1]", "0") // an index of a value that is no list
	f.Fuzz(func(t *testing.T, text, path, value string) {
		if path == "" || !json.Valid([]byte(value)) {
			return
		}
		out, err := setText(text, path, json.RawMessage(value))
		if err != nil {
			return
		}
		got, err := getText(out, path)
		if err != nil || !equalJSON(got, value) {
			t.Errorf("set %s = %s in %q: get returns %s, %v in %q", path, value, text, got, err, out)
		}
	})
}

func TestNumbersThatYAMLReadsAsTextAreRefused(t *testing.T) {
	if _, err := nodeOf(json.RawMessage(`1e999`)); err == nil {
		t.Error("1e999: no error")
	}
}
