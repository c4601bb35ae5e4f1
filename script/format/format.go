// Package format formats scripts for vmcp fmt. It changes their layout only: after each
// formatting the trees before and after are compared.
//
//	text, err := format.Format(script.File{Name: "a.star", Source: src})
//
// The layout is that of buildifier, whose parser supports neither while nor bytes literals, and
// differs in numbers and strings. So [disguise] replaces these by plain text of the same length
// before parsing, and restore puts them back into the tree, by their positions, before it is
// printed.
package format

import (
	"bytes"
	"fmt"

	"github.com/bazelbuild/buildtools/build"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script"
)

// A Bug is the error for a text that was not formatted because of a mistake in this package.
type Bug struct {
	File, Msg string
}

// Error returns the message, which asks for a report.
func (b *Bug) Error() string {
	return fmt.Sprintf("%s: not formatted: %s; this is a mistake of vmcp fmt, please report it with the file", b.File, b.Msg)
}

// mostRounds bounds how often a text is formatted until it does not change: some comments move
// twice.
const mostRounds = 4

// Format returns the formatted text of a script, with LF as line ends, and with the same tree and
// comments. The error is script.Errors, with positions, for a syntax error or a comment that the
// layout cannot keep in its place, and *Bug for any other failure.
func Format(f script.File) ([]byte, error) {
	f.Source = bytes.ReplaceAll(bytes.ReplaceAll(f.Source, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	tree, err := parse(f)
	if err != nil {
		return nil, err
	}
	out, err := formatted(f, tree)
	if err != nil {
		if comment := unplaced(f, tree); comment != nil {
			return nil, comment
		}
		return nil, err
	}
	return out, nil
}

// formatted formats until nothing changes, and compares the trees before and after.
func formatted(f script.File, before *syntax.File) ([]byte, error) {
	tree, out := before, f.Source
	for range mostRounds {
		last := out
		var err error
		if out, err = format(tree, last); err != nil {
			return nil, &Bug{f.Name, err.Error()}
		}
		if bytes.Equal(out, last) {
			break
		}
		if tree, err = parse(script.File{Name: f.Name, Source: out}); err != nil {
			return nil, &Bug{f.Name, "the result is not a valid script: " + err.Error()}
		}
	}
	if msg := difference(before, tree); msg != "" {
		return nil, &Bug{f.Name, msg}
	}
	if !sameComments(before, f.Source, tree, out) {
		return nil, &Bug{f.Name, "a comment would be lost"}
	}
	return out, nil
}

// parse parses a text with positions relative to the text, not to the file that contains it.
func parse(f script.File) (*syntax.File, error) {
	if _, err := script.Parse(f, script.Limits{}); err != nil { // the error has positions by f.Origin
		return nil, err
	}
	return script.Parse(script.File{Name: "script", Source: f.Source}, script.Limits{})
}

// format formats once. The tree is that of src.
func format(tree *syntax.File, src []byte) ([]byte, error) {
	d := disguise(tree, src)
	f, err := build.ParseDefault("script", d.text)
	if err != nil {
		return nil, err
	}
	if !loadsTwice(tree) {
		(&build.Rewriter{RewriteSet: loadRewrites}).Rewrite(f)
	}
	(&build.Rewriter{RewriteSet: plainRewrites}).Rewrite(f)
	if err := d.restore(f); err != nil {
		return nil, err
	}
	out := bytes.ReplaceAll(build.FormatWithoutRewriting(f), []byte(whileMark), []byte("while "))
	if bytes.IndexByte(out, 0) >= 0 {
		return nil, fmt.Errorf("a while cannot be written back")
	}
	return out, nil
}

// Rewrites of buildifier that keep the meaning.
var (
	loadRewrites  = []string{"loadTop", "sameOriginLoad", "sortLoadStatements", "loadsort"}
	plainRewrites = []string{"collapseEmpty"}
)

// loadsTwice reports whether a name is loaded twice: the order of the load statements then matters.
func loadsTwice(f *syntax.File) bool {
	seen := map[string]bool{}
	for _, s := range f.Stmts {
		load, ok := s.(*syntax.LoadStmt)
		if !ok {
			continue
		}
		for _, id := range load.To {
			if seen[id.Name] {
				return true
			}
			seen[id.Name] = true
		}
	}
	return false
}
