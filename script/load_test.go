package script_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

// compileWith compiles main.star with inline libraries.
func compileWith(src string, libs map[string]string) (*script.Program, error) {
	return script.Compile(script.File{Name: "main.star", Source: []byte(src)},
		script.Options{Builtins: builtins.All(), Load: script.Library{Inline: libs}.Load})
}

func TestLoad(t *testing.T) {
	const calls = "load(\"lib.star\", \"f\")\ndef run(p): return f(p)"
	for _, tt := range []struct {
		name, src string
		libs      map[string]string
		want      string
	}{
		{"a function", calls, map[string]string{"lib.star": `def f(p): return ["lib", p]`}, `["lib",{}]`},
		{"run itself", `load("lib.star", "run")`, map[string]string{"lib.star": `def run(p): return 1`}, `main.star:1:1: no function run(params): calls of the tool run it, so it has to be defined in this file`},
		{"the same builtins", calls, map[string]string{"lib.star": `def f(p): return call_tool("echo", {"a": 1})`}, `{"a":1}`},
		{"a library that loads", calls, map[string]string{
			"lib.star": "load(\"sub/more.star\", \"g\")\ndef f(p): return g(p)", "sub/more.star": `def g(p): return 2`}, `2`},
		{"shared by two", "load(\"a.star\", \"a\")\nload(\"b.star\", \"b\")\ndef run(p): return [a(), b()]", map[string]string{
			"a.star": "load(\"state.star\", \"state\")\ndef a():\n  state.append(\"a\")\n  return len(state)",
			"b.star": "load(\"state.star\", \"state\")\ndef b():\n  state.append(\"b\")\n  return state", "state.star": `state = []`,
		}, `[1,["a","b"]]`},
		{"an error in the library", calls, map[string]string{"lib.star": "\n\ndef f(p):\n  return 1 // 0"},
			`lib.star:4:12: floored division by zero`},
		{"an error while it is loaded", calls, map[string]string{"lib.star": "x = {}[1]\ndef f(p): pass"},
			`lib.star:1:7: cannot load lib.star: key 1 not in dict`},
		{"an undefined name in it", calls, map[string]string{"lib.star": "def f(p): return call_tol()"},
			`lib.star:1:18: undefined: call_tol (did you mean call_tool?)`},
		{"a name that it does not have", "load(\"lib.star\", \"g\")\ndef run(p): pass", map[string]string{"lib.star": `def f(p): pass`},
			`main.star:1:1: load: name g not found in module lib.star`},
		{"no such file", calls, nil, `main.star:1:6: load "lib.star": no such file in the libraries`},
		{"a cycle", calls, map[string]string{"lib.star": `load("b.star", "b")`, "b.star": `load("c.star", "c")`, "c.star": `load("lib.star", "f")`},
			`c.star:1:6: load "lib.star": cycle: lib.star → b.star → c.star → lib.star`},
		{"a path out", "load(\"../lib.star\", \"f\")\ndef run(p): pass", nil,
			`main.star:1:6: load "../lib.star": want a relative name below the library, such as "helpers.star"`},
		{"an absolute path", "load(\"/etc/passwd\", \"f\")\ndef run(p): pass", nil,
			`main.star:1:6: load "/etc/passwd": want a relative name below the library, such as "helpers.star"`},
		{"another file", "load(\"lib.txt\", \"f\")\ndef run(p): pass", nil, `main.star:1:6: load "lib.txt": want a name that ends with .star`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := compileWith(tt.src, tt.libs)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				h := &scripttest.Host{Tools: map[string]scripttest.Tool{"echo": scripttest.Echo}}
				got = outcome(p.Run(t.Context(), script.RunOptions{Host: h}))
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestLoadLimits(t *testing.T) {
	chain := map[string]string{}
	for i := range 12 {
		chain[fmt.Sprintf("%d.star", i)] = fmt.Sprintf("load(\"%d.star\", \"x\")", i+1)
	}
	for _, tt := range []struct {
		name  string
		libs  map[string]string
		limit string
	}{
		{"depth", chain, "loadDepth"},
		{"size of the program", map[string]string{
			"0.star": "load(\"1.star\", \"x\")\n#" + strings.Repeat("x", 200<<10), "1.star": "load(\"2.star\", \"x\")\n#" + strings.Repeat("x", 200<<10),
			"2.star": "load(\"3.star\", \"x\")\n#" + strings.Repeat("x", 250<<10), "3.star": "load(\"4.star\", \"x\")\n#" + strings.Repeat("x", 250<<10),
			"4.star": "x=1\n#" + strings.Repeat("x", 250<<10)}, "program"},
	} {
		_, err := compileWith("load(\"0.star\", \"x\")\ndef run(p): pass", tt.libs)
		var limit *script.LimitError
		if !errors.As(err, &limit) || limit.Limit != tt.limit {
			t.Errorf("%s: got %v, want the limit %s", tt.name, err, tt.limit)
		}
	}
	for _, size := range []int{262145, 2 << 20} { // the second is more than a whole program may be
		_, err := compileWith("#"+strings.Repeat("x", size-1), nil)
		if want := fmt.Sprintf(`main.star:1:1: the file has %d bytes, the limit is 256KB`, size); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestLoadStaysBelowItsFolders(t *testing.T) {
	outside, dir, second := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(outside, "secret.star", `x = 1`)
	write(dir, "a.star", `x = 1`)
	write(second, "a.star", `x = 2`)
	write(second, "b.star", `x = 2`)
	if err := os.Symlink(filepath.Join(outside, "secret.star"), filepath.Join(dir, "link.star")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.star"), 0o700); err != nil {
		t.Fatal(err)
	}
	load := script.Dirs(dir, second)
	for _, tt := range []struct{ name, want string }{
		{"a.star", "x = 1"},
		{"b.star", "x = 2"},
		{"link.star", "a symbolic link leads out of the folder"},
		{"linked/secret.star", "a symbolic link leads out of the folder"},
		{"folder.star", "want a regular file, this is a folder"},
		{"a/../../secret.star", "want a relative name"},
		{"c.star", "no such file in the libraries (" + dir + ", " + second + ")"},
	} {
		f, err := load("main.star", tt.name)
		got := string(f.Source)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("load %s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestTheHashCoversAllFiles(t *testing.T) {
	const src = "load(\"lib.star\", \"x\")\ndef run(p): return x"
	hash := func(src, lib string) string {
		p, err := compileWith(src, map[string]string{"lib.star": lib})
		if err != nil {
			t.Fatal(err)
		}
		return p.Hash()
	}
	base := hash(src, "x = 1")
	if base != hash(src, "x = 1") {
		t.Error("the same files have two hashes")
	}
	if base == hash(src, "x = 2") || base == hash(src+" ", "x = 1") {
		t.Error("an edit left the hash as it was")
	}
}
