package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// MaxFile bounds a configuration file; inline scripts included, real ones stay far below.
const MaxFile = 4 << 20

// Load reads and checks a configuration file. What is wrong in the file comes back
// as diag.Problems.
func Load(path string) (*Config, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// ReadFile reads the text of a configuration file. The error is diag.Problems when there
// is something else than a file of a configuration's size.
func ReadFile(path string) ([]byte, error) {
	data, err := files.Read(path, MaxFile)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return data, err
	}
	return nil, diag.Problems{{Pos: diag.Pos{File: diag.File(path), Line: 1, Column: 1}, Code: code, Message: err.Error()}}
}

// Parse checks the text of a configuration file and returns it complete: defaults
// set, ${NAME} replaced from the environment, relative paths made absolute. All
// problems come back at once, as diag.Problems. The filename is for messages, and its
// folder is what paths in the file are relative to.
func Parse(filename string, data []byte) (*Config, error) {
	return parse(filename, data, os.LookupEnv)
}

func parse(filename string, data []byte, env func(string) (string, bool)) (*Config, error) {
	c, problems := read(filename, data, env)
	if problems, _ = problems.Split(); len(problems) > 0 {
		return nil, problems
	}
	return c, nil
}

// Read is Parse for those who look for mistakes: it returns what could be read even when
// something in it is wrong, nil only when nothing could, and the warnings among the problems.
func Read(filename string, data []byte) (*Config, diag.Problems) {
	return read(filename, data, os.LookupEnv)
}

func read(filename string, data []byte, env func(string) (string, bool)) (*Config, diag.Problems) {
	d := newDecoder(filename)
	root := d.document(data)
	if root == nil {
		return nil, d.problems.Sorted()
	}
	c := &Config{}
	d.value(root, "", 0, reflect.ValueOf(c).Elem())
	v := &validator{decoder: d, env: env, dir: folder(filename)}
	v.config(c)
	c.expanded, c.warnings = v.secrets, v.warnings.Sorted()
	c.places, c.origins, c.partial = d.at, d.origins, len(d.problems) > 0
	c.Complete()
	return c, append(d.problems, v.warnings...).Sorted()
}

func folder(filename string) string {
	abs, err := filepath.Abs(filename)
	if err != nil { // the working directory is gone; messages will show the relative path
		return filepath.Dir(filename)
	}
	return filepath.Dir(abs)
}

// document parses the one YAML document of a file; nil when there is nothing to decode.
func (d *decoder) document(data []byte) *yaml.Node {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark
	if !d.readable(data) {
		return nil
	}
	d.lines = strings.Split(string(data), "\n")
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		d.problem(1, 1, "the file is empty; want at least backends: with one entry")
		return nil
	} else if err != nil {
		d.syntax(data, err)
		return nil
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		d.wrong(&next, "", "a second document begins here; want one per file")
	case !errors.Is(err, io.EOF):
		d.syntax(data, err)
	}
	root := doc.Content[0]
	if isNull(root) {
		d.problem(1, 1, "the file is empty; want at least backends: with one entry")
		return nil
	}
	if d.endless(root, nil) {
		return nil
	}
	return root
}

// endless reports an alias inside the very value that it stands for.
func (d *decoder) endless(n *yaml.Node, around []*yaml.Node) bool {
	if n.Kind == yaml.AliasNode && slices.Contains(around, n.Alias) {
		d.wrong(n, "", "*%s stands inside &%[1]s itself and would never end", n.Value)
		return true
	}
	around = append(around, n)
	return slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return d.endless(item, around) })
}

func (d *decoder) problem(line, column int, format string, args ...any) {
	d.problems = append(d.problems, diag.Problem{Pos: diag.Pos{File: d.file, Line: line, Column: column}, Code: code, Message: fmt.Sprintf(format, args...)})
}

// readable refuses what YAML's own message would not help with.
func (d *decoder) readable(data []byte) bool {
	if len(data) > MaxFile {
		d.problem(1, 1, "the file is larger than %s", Bytes(MaxFile))
		return false
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if utf8.Valid(line) {
			continue
		}
		column := 1
		for rest := line; ; column++ {
			r, size := utf8.DecodeRune(rest)
			if r == utf8.RuneError && size <= 1 {
				break
			}
			rest = rest[size:]
		}
		d.problem(i+1, column, "not UTF-8 text; save the file as UTF-8")
		return false
	}
	return true
}

// syntax reports what the YAML parser says. It has the line only in its text.
func (d *decoder) syntax(data []byte, err error) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if _, name, ok := strings.Cut(msg, "unknown anchor '"); ok { // the one message without a line
		name, _, _ = strings.Cut(name, "'")
		before, _, _ := bytes.Cut(data, []byte("*"+name))
		line += bytes.Count(before, []byte("\n"))
	}
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		number, text, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			line, msg = n, text
		}
	}
	if tab := tabIndent(data, line); tab > 0 {
		d.problem(tab, 1, "indented with a tab; YAML wants spaces")
		return
	}
	d.problem(line, indent(data, line)+1, "not YAML: %s", msg)
}

// tabIndent returns the line at or next to the given one that is indented with a
// tab, or 0: the parser's line is where it noticed.
func tabIndent(data []byte, line int) int {
	lines := bytes.Split(data, []byte("\n"))
	for n := max(line-1, 1); n <= min(line+1, len(lines)); n++ {
		text := lines[n-1]
		if bytes.ContainsRune(text[:len(text)-len(bytes.TrimLeft(text, " \t"))], '\t') {
			return n
		}
	}
	return 0
}

// indent is the number of spaces before the text of a line.
func indent(data []byte, line int) int {
	lines := bytes.Split(data, []byte("\n"))
	if line > len(lines) {
		return 0
	}
	text := lines[line-1]
	return len(text) - len(bytes.TrimLeft(text, " "))
}
