package script

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// This part of the package reads the text of scripts before it is compiled: its position in another file, its tree, the names
// that it may use, and the libraries of load statements. Problems are an [Error] with a position.

// File is the text of one script.
type File struct {
	// Name identifies the file; in a library it is the name that load uses.
	Name   string
	Source []byte
	// Origin is the position of the text in another file; the zero value is a file of that Name.
	Origin diag.Origin
}

// dialect is Starlark with all of its optional features that scripts use.
var dialect = &syntax.FileOptions{
	Set:             true,
	While:           true,
	TopLevelControl: true,
	GlobalReassign:  true,
	Recursion:       true,
}

// names returns the predeclared names of files: the universe, metered, and the builtins.
func names(builtins starlark.StringDict) starlark.StringDict {
	all := starlark.StringDict{}
	maps.Copy(all, meter.Universe())
	maps.Copy(all, builtins)
	return all
}

// Parse parses one file, and refuses what is longer than l.Source, has more than l.SourceNodes, or is nested too deeply for later passes. The error is
// an Errors.
func Parse(f File, l limits.Run) (*syntax.File, error) {
	l = l.Or(limits.Defaults())
	if len(f.Source) > int(l.Source) {
		return nil, Errors{{
			Msg: fmt.Sprintf("the file has %d bytes, the limit is %s", len(f.Source), l.Source),
			Pos: f.start(),
		}}
	}
	if nul := bytes.IndexByte(f.Source, 0); nul >= 0 { // the scanner would end the text there
		return nil, Errors{{Msg: "a NUL character: this is not a text file", Pos: f.position(nul)}}
	}
	tree, err := dialect.Parse(f.Shown(), f.Source, 0)
	if err == nil {
		err = meter.Check(tree, l.SourceNodes) // before other passes walk it
	}
	if err != nil {
		return nil, f.moveErrors(listed(err))
	}
	f.moveTree(tree)
	return tree, nil
}

// Resolve checks that all names of a file are defined. The error is an Errors, with suggestions.
func Resolve(f *syntax.File, builtins starlark.StringDict) error {
	names := names(builtins)
	suggest := meter.Suggestions(f, names)
	if err := resolve.File(f, meter.SomeUndefined(names), starlark.Universe.Has); err != nil {
		errs := listed(suggest(err))
		if files.IsTest(f.Path) { // tests may load them
			errs = slices.DeleteFunc(errs, func(e *Error) bool { return strings.HasPrefix(e.Msg, "load: names with leading underscores") })
		}
		if len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// SourceRun is the entry function of a tool that names no other one.
const SourceRun = "run"

// EntryOf checks the signature of an entry function, as far as the text shows it, and returns its position.
func EntryOf(f *syntax.File, function string) (syntax.Position, *Error) {
	def, bound := meter.FindFunction(f, function)
	start := meter.Beginning(f)
	if !bound {
		return start, &Error{Msg: fmt.Sprintf("no function %s(params): calls of the tool run it, so it has to be defined in this file", function), Pos: start}
	}
	if def == nil {
		return start, nil
	}
	required, positional := 0, 0
	for _, p := range def.Params {
		switch p := p.(type) {
		case *syntax.Ident:
			required++
			positional++
		case *syntax.BinaryExpr:
			positional++
		case *syntax.UnaryExpr:
			if p.Op == syntax.STAR {
				positional++
			}
		}
	}
	if required > 1 || positional == 0 {
		return start, &Error{Msg: fmt.Sprintf("%s must take one argument, as in %[1]s(params): it has %d", function, required), Pos: def.Name.NamePos}
	}
	return def.Name.NamePos, nil
}

// digest returns a short fingerprint of data, such as the text of a file.
func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		var size [8]byte
		for i, n := 0, len(p); i < 8; i++ {
			size[i] = byte(n >> (8 * i))
		}
		h.Write(size[:])
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
