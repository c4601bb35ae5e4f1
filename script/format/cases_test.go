package format

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
)

func TestFormat(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"nothing", "", ""},
		{"spaces", "x=1\ny  =  [ 1,2 , 3 ]\n", "x = 1\ny = [1, 2, 3]\n"},
		{"quotes", `a = 'b'; c = 'say "x"'; d = 'it\'s'; e = '''t'''; f = r'\d'` + "\n", "a = \"b\"\nc = 'say \"x\"'\nd = \"it's\"\ne = \"\"\"t\"\"\"\nf = r\"\\d\"\n"},
		{"loads", "load('z.star', 'b', 'a')\nx = a\nload('a.star', 'q')\nload('z.star', c = 'd')\n", "load(\"a.star\", \"q\")\nload(\"z.star\", \"a\", \"b\", c = \"d\")\n\nx = a\n"},
		{"a name loaded twice keeps its order", "load('z.star', 'a')\nload('b.star', 'a')\n", "load(\"z.star\", \"a\")\nload(\"b.star\", \"a\")\n"},
		{"line ends", "if x:\r\n  y\r\nz\r", "if x:\n    y\nz\n"},
		{"tabs", "if x:\n\ty\n\tif z:\n\t\ta\n\telif q:\n\t    b\n\telse:\n\t\tc\n", "if x:\n    y\n    if z:\n        a\n    elif q:\n        b\n    else:\n        c\n"},
		{"one line", "if x: y; z\nelse: pass\n", "if x:\n    y\n    z\nelse:\n    pass\n"},
		{"long lines stay", "x = f(" + strings.Repeat("a, ", 100) + "b)\n", "x = f(" + strings.Repeat("a, ", 100) + "b)\n"},
		{"comments", "#x\nf( # in\n 1, # one\n)   # out\n", "#x\nf(\n    # in\n    1,  # one\n)  # out\n"},
		{"docstrings stay", "def f():\n  \"\"\"Doc.\n     while\n  \"\"\"\n  return 1\n", "def f():\n    \"\"\"Doc.\n     while\n  \"\"\"\n    return 1\n"},
		{"numbers", "x = [0x1F, .5, 5., 1e9, 0o17, 1 .real]\n", "x = [0x1F, .5, 5., 1e9, 0o17, 1 .real]\n"},

		{"while", "while  x :\n  y\n", "while x:\n    y\n"},
		{"while in brackets", "while(x):\n  y\n", "while (x):\n    y\n"},
		{"while in an else", "if x:\n  y\nelse:\n  while z:\n    q\n", "if x:\n    y\nelse:\n    while z:\n        q\n"},
		{"if in a while in an else", "if x:\n  y\nelse:\n  while z:\n    if q: r\n", "if x:\n    y\nelse:\n    while z:\n        if q:\n            r\n"},
		{"while on one line", "while x: y = 1; z\n", "while x:\n    y = 1\n    z\n"},
		{"while of or", "while a or b and not c:\n  pass\n", "while a or b and not c:\n    pass\n"},
		{"while of a condition", "while a if b else c:\n  pass\n", "while a if b else c:\n    pass\n"},
		{"while of a lambda", "while (lambda: x)():\n  pass\n", "while (lambda: x)():\n    pass\n"},
		{"while over lines", "while a and \\\n  b:\n  pass\n", "while a and \\\n      b:\n    pass\n"},
		{"while over lines in brackets", "while (a and\n  b):\n  pass\n", "while (a and\n       b):\n    pass\n"},
		{"the word while", "# while x:\nwhile_true = 'while x:'  # while\ndef awhile(while_ = \"\"\"\nwhile y:\n\"\"\"): return r'while'\n",
			"# while x:\nwhile_true = \"while x:\"  # while\n\ndef awhile(while_ = \"\"\"\nwhile y:\n\"\"\"):\n    return r\"while\"\n"},
		{"if __while__", "if __while__ and x:\n  __while__ = 1\n", "if __while__ and x:\n    __while__ = 1\n"},

		{"bytes", "x = [b'a', b\"\", rb'\\d', b'''\nwhile\n''', bb, b]\n", "x = [b\"a\", b\"\", rb\"\\d\", b\"\"\"\nwhile\n\"\"\", bb, b]\n"},
		{"bytes as an argument", "f(b'\\xff', key=b'k')\n", "f(b\"\\xff\", key = b\"k\")\n"},
		{"strings that only our parser reads", "x = ['\\u00e9', \"\\U0001F600\", 'a\\\nb']\n", "x = [\n    \"\\u00e9\",\n    \"\\U0001F600\",\n    \"a\\\nb\",\n]\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, string(format1(t, "a.star", []byte(tt.src)))); diff != "" {
				t.Errorf("Format(%q) (-want +got):\n%s", tt.src, diff)
			}
		})
	}
}

func TestWhatIsNotFormatted(t *testing.T) {
	for _, tt := range []struct{ src, want string }{
		{"x = (", "a.star:1:6: got end of file, want primary expression"},
		{"x = 1\ny = \x00", "a.star:2:5: a NUL character: this is not a text file"},
		{"x = [y for y in  # here\n # there\n (0)]\n", "a.star:1:18: " + ErrUnplaced.Error()},
		{"# fine\nx = 1  # fine\nx = [y for y in  # here\n # there\n (0)]\n# fine\n", "a.star:3:18: " + ErrUnplaced.Error()},
	} {
		out, err := Format(script.File{Name: "a.star", Source: []byte(tt.src)})
		if err == nil || err.Error() != tt.want || out != nil {
			t.Errorf("Format(%q)\n = %q, %v\nwant %s", tt.src, out, err, tt.want)
		}
		if bug := new(*Bug); errors.As(err, bug) {
			t.Errorf("Format(%q) reports a bug: %v", tt.src, err)
		}
	}
}

// TestDifference: changes that Format must not make are found.
func TestDifference(t *testing.T) {
	for _, tt := range []struct {
		a, b  string
		equal bool
	}{
		{"x = (1)", "x = 1", true},
		{"x = 'a'", `x = "a"`, true},
		{"x = 16", "x = 0x10", true},
		{"load('a', 'b')\nload('a', 'c')", "load('a', 'c', 'b')", true},
		{"load('a', 'b')\nload('c', 'b')", "load('c', 'b')\nload('a', 'b')", false},
		{"load('a', 'b')", "load('a', b = 'c')", false},
		{"x = 1", "x = 2", false},
		{"x = 1", "x = 1.0", false},
		{"x = 'a'", "x = b'a'", false},
		{"x + y", "x - y", false},
		{"x = 1", "x += 1", false},
		{"not a in b", "(not a) in b", false},
		{"f(a, *b)", "f(*b)", false},
		{"x[1:]", "x[:1]", false},
		{"return_(x)", "x", false},
		{"if a:\n  b\nelse:\n  if c:\n    d", "if a:\n  b\nelif c:\n  d", true},
		{"if a:\n  while c:\n    d", "if a:\n  if c:\n    d", false},
		{"x\ny", "y\nx", false},
		{"{x: 1 for x in y}", "[x for x in y]", false},
		{"pass", "x", false},
		{"lambda: x", "lambda a: x", false},
		{"lambda a: x", "lambda *a: x", false},
	} {
		a, errA := parse(script.File{Name: "a", Source: []byte(tt.a)})
		b, errB := parse(script.File{Name: "b", Source: []byte(tt.b)})
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if got := difference(a, b); (got == "") != tt.equal {
			t.Errorf("difference(%q, %q) = %q", tt.a, tt.b, got)
		}
	}
}

func TestFormatYAML(t *testing.T) {
	const head = "scriptedTools:\n  - name: a\n"
	for _, tt := range []struct{ name, src, want string }{
		{"plain", head + "    script: |\n      x=1\n    timeout:  2s\n", head + "    script: |\n      x = 1\n    timeout:  2s\n"},
		{"chomping", head + "    script: |-\n      x=1\n", head + "    script: |-\n      x = 1\n"},
		{"keeping", head + "    script: |+\n      x=1\n\n\n  # end\n", head + "    script: |+\n      x = 1\n\n\n  # end\n"},
		{"an indicator", head + "    script: |2\n      x=1\n", head + "    script: |2\n      x = 1\n"},
		{"a comment", head + "    script: |  # |\n\n\n      x=1\n", head + "    script: |  # |\n      x = 1\n"},
		{"an anchor", head + "    script: &s |\n      x=1\n  - {script: *s}\n", head + "    script: &s |\n      x = 1\n  - {script: *s}\n"},
		{"a tag", head + "    script: !!str |\n      x=1\n", head + "    script: !!str |\n      x = 1\n"},
		{"CRLF", "scriptedTools:\r\n- script: |\r\n   if x:\r\n    y\r\n\r\n  name:  a\r\n", "scriptedTools:\r\n- script: |\r\n   if x:\r\n       y\r\n\r\n  name:  a\r\n"},
		{"no end", head + "    script: |\n      x=1", head + "    script: |\n      x = 1"},
		{"spaces in a string", head + "    script: |\n      x='''\n         \n      '''\n", head + "    script: |\n      x = \"\"\"\n         \n      \"\"\"\n"},
		{"other styles stay", "scriptedTools:\n- {script: \"x=1\"}\n- script: >\n    x=1\n- script: x=1\n", ""},
		{"other fields stay", "notes: {script: 1}\nscript: |\n  x=1\nbackends:\n- script: |\n    x=1\n", ""},
		{"two", "scriptedTools:\n- script: |\n    x=1\n- script: |\n      while  x: y\n", "scriptedTools:\n- script: |\n    x = 1\n- script: |\n      while x:\n          y\n"},
		{"a BOM", "\ufeffscriptedTools:\n- script: |\n    x=1\n", "\ufeffscriptedTools:\n- script: |\n    x = 1\n"},
		{"the same text elsewhere", "scriptedTools:\n- description: |\n    x=1\n  script: |\n    x=1\n", "scriptedTools:\n- description: |\n    x=1\n  script: |\n    x = 1\n"},
		{"empty", head + "    script: |\n    timeout: 2s\n", ""},
		{"no scripts", "a: b\n", ""},
		{"nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				tt.want = tt.src
			}
			out, err := FormatYAML("a.yaml", []byte(tt.src))
			if diff := cmp.Diff(tt.want, string(out)); err != nil || diff != "" {
				t.Errorf("FormatYAML(%q): %v (-want +got):\n%s", tt.src, err, diff)
			}
			again, err := FormatYAML("a.yaml", out)
			if err != nil || string(again) != string(out) {
				t.Errorf("twice: %v\n%s", err, again)
			}
		})
	}
}

// TestYAMLOfManyScripts: all bytes outside of scripts are unchanged.
func TestYAMLOfManyScripts(t *testing.T) {
	testmode.NeedThorough(t)
	var src, want strings.Builder
	for path, text := range project(t) {
		formatted, err := Format(script.File{Name: path, Source: text})
		if err != nil || strings.Contains(string(text), "\r") || strings.ContainsFunc(string(text), func(r rune) bool {
			return r < ' ' && r != '\n' || r == '\u0085' || r == '\u2028' || r == '\u2029' || r == '\ufeff'
		}) || len(text) > 20000 || len(formatted) == 0 || text[0] == '\n' || text[0] == ' ' {
			continue
		}
		for _, w := range []struct {
			b    *strings.Builder
			text string
		}{{&src, string(text)}, {&want, string(formatted)}} {
			if w.b.Len() == 0 {
				w.b.WriteString("scriptedTools:   # the   tools\n")
			}
			w.b.WriteString(" -  name:    'x'\n    script: |\n")
			for line := range strings.Lines(strings.TrimRight(w.text, "\n")) {
				if strings.TrimSuffix(line, "\n") != "" {
					w.b.WriteString("      ")
				}
				w.b.WriteString(line)
			}
			w.b.WriteString("\n\n    timeout:   2m # stays\n")
		}
	}
	out, err := FormatYAML("a.yaml", []byte(src.String()))
	if err != nil || strings.Count(src.String(), "stays") < 200 {
		t.Fatalf("%v, %d scripts", err, strings.Count(src.String(), "stays"))
	}
	if diff := cmp.Diff(want.String(), string(out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
