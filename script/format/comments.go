package format

import (
	"bytes"
	"errors"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script"
)

// comment is the position of a comment.
type comment struct {
	start, end int // bytes, from the # to the end of the line
}

// comments returns the comments of a script, in order.
func comments(tree *syntax.File, src []byte) (found []comment) {
	at := newLines(src)
	plain := bytes.Clone(src)
	syntax.Walk(tree, func(n syntax.Node) bool {
		if l, ok := n.(*syntax.Literal); ok {
			start := at.offset(l.TokenPos)
			for i := range len(l.Raw) {
				if plain[start+i] == '#' {
					plain[start+i] = 'x'
				}
			}
		}
		return true
	})
	for i, start := range at.starts {
		end := len(src)
		if i+1 < len(at.starts) {
			end = at.starts[i+1] - 1
		}
		if n := bytes.IndexByte(plain[start:end], '#'); n >= 0 {
			found = append(found, comment{start + n, end})
		}
	}
	return found
}

// sameComments reports whether two scripts have the same comments, at any position.
func sameComments(before *syntax.File, src []byte, after *syntax.File, out []byte) bool {
	return slices.Equal(texts(before, src), texts(after, out))
}

func texts(tree *syntax.File, src []byte) (found []string) {
	for _, c := range comments(tree, src) {
		found = append(found, strings.TrimSpace(string(src[c.start:c.end])))
	}
	slices.Sort(found)
	return found
}

// ErrUnplaced is the cause of the error for a comment that the layout cannot keep in its place.
var ErrUnplaced = errors.New("the layout has no place for this comment; put it on a separate line above the statement")

// unplaced returns the error for a script that can only be formatted without one of its
// comments: one in a place for which the layout has no line, such as after the in of a for. It
// is nil when comments are not the reason.
func unplaced(f script.File, tree *syntax.File) error {
	all := comments(tree, f.Source)
	without := func(n int) bool {
		src := bytes.Clone(f.Source)
		for _, c := range all[:n] {
			copy(src[c.start:c.end], bytes.Repeat([]byte(" "), c.end-c.start))
		}
		_, err := formatted(script.File{Name: f.Name, Source: src}, tree)
		return err == nil
	}
	if len(all) == 0 || !without(len(all)) {
		return nil
	}
	n := sort.Search(len(all), without) // the last of them, if there are several
	at := all[max(n, 1)-1].start
	before := f.Source[:at]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	name := f.Name
	if f.Origin.Exact {
		name, line, column = f.Origin.File, line+f.Origin.Line-1, column+f.Origin.Column-1
	}
	return script.Errors{{
		Msg: ErrUnplaced.Error(), Err: ErrUnplaced,
		Pos: syntax.MakePosition(&name, int32(line), int32(column)),
	}}
}
