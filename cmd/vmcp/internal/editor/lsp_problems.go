package editor

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/format"
)

// textOf is the text of a file, with unsaved changes.
func (s *server) textOf(path string) *text {
	if d := s.docs[path]; d != nil {
		return d.text
	}
	data, err := files.Read(path, config.MaxFile)
	if err != nil {
		return newText("")
	}
	return newText(string(data))
}

// diagnostics converts the problems of one file.
func (s *server) diagnostics(path string, problems diag.Problems) []diagnostic {
	t := s.checkedText(path).text
	if t == nil {
		t = s.textOf(path)
	}
	out := []diagnostic{}
	for _, p := range problems {
		d := diagnostic{Range: t.span(p.Pos, p.EndLine, p.EndColumn), Severity: 1, Code: p.Code, Source: "vmcp", Message: p.Message}
		if p.Severity == diag.Warning {
			d.Severity = 2
		}
		if p.Path != "" {
			d.Message = p.Path + ": " + d.Message
		}
		if p.Hint != "" {
			d.Message += "; " + p.Hint
		}
		for _, r := range p.Related {
			if other, err := filepath.Abs(r.File); err == nil && r.File != "" {
				d.Related = append(d.Related, related{location{s.uri(other), s.textOf(other).span(r.Pos, 0, 0)}, r.Message})
			}
		}
		out = append(out, d)
	}
	return out
}

// actions answers textDocument/codeAction: the fixes of the problems in a range.
func (s *server) actions(params json.RawMessage) (any, error) {
	var p actionParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, &rpcError{codeInvalidParams, err.Error()}
	}
	d := s.docs[pathOf(p.TextDocument.URI)]
	if d == nil || d.project == nil || d.project.texts[d.path].number != d.version {
		return []codeAction{}, nil // the last check was of an older text
	}
	actions := []codeAction{}
	for _, one := range d.project.problems {
		path, err := filepath.Abs(one.File)
		if err != nil || path != d.path || one.Fix == nil {
			continue
		}
		shown := s.diagnostics(path, diag.Problems{one})
		if r := shown[0].Range; less(p.Range.End, r.Start) || less(r.End, p.Range.Start) {
			continue
		}
		actions = append(actions, codeAction{
			Title: one.Fix.Title, Kind: "quickfix", Diagnostics: shown, Preferred: true, Edit: s.edits(one.Fix.Edits),
		})
	}
	return actions, nil
}

func (s *server) edits(list []diag.Edit) workspaceEdit {
	w := workspaceEdit{Changes: map[string][]textEdit{}}
	for _, e := range list {
		path, err := filepath.Abs(e.File)
		if err != nil {
			continue
		}
		t := s.textOf(path)
		w.Changes[s.uri(path)] = append(w.Changes[s.uri(path)], textEdit{
			Range: textRange{t.place(e.Line, e.Column), t.place(e.EndLine, e.EndColumn)}, NewText: e.Text,
		})
	}
	return w
}

// format answers textDocument/formatting: no edits if the document is formatted, or has a syntax error.
func (s *server) format(d *doc, _ placeParams) ([]textEdit, error) {
	var out []byte
	var err error
	if isYAML(d.path) {
		out, err = format.FormatYAML(d.path, []byte(d.text.src))
	} else {
		out, err = format.Format(script.File{Name: diag.File(d.path), Source: []byte(d.text.src)})
	}
	if bug := new(format.Bug); errors.As(err, &bug) {
		return nil, refuse("%v", err)
	}
	if err != nil || string(out) == d.text.src {
		return []textEdit{}, nil // the check reports what is wrong
	}
	return []textEdit{d.text.difference(string(out))}, nil
}

// difference is one edit that turns a text into another, of the lines from the first that differs to the last.
func (t *text) difference(to string) textEdit {
	from := t.src
	head := 0
	for head < len(from) && head < len(to) && from[head] == to[head] {
		head++
	}
	head = strings.LastIndexByte(from[:head], '\n') + 1
	tail := 0
	for tail < len(from)-head && tail < len(to)-head && from[len(from)-1-tail] == to[len(to)-1-tail] {
		tail++
	}
	for tail > 0 && from[len(from)-tail-1] != '\n' {
		tail--
	}
	return textEdit{Range: textRange{t.positionOf(head), t.positionOf(len(from) - tail)}, NewText: to[head : len(to)-tail]}
}

// positionOf is the position of an offset in bytes.
func (t *text) positionOf(at int) position {
	line := 0
	for line+1 < len(t.starts) && t.starts[line+1] <= at {
		line++
	}
	return position{line, length16(t.src[t.starts[line]:at])}
}
