package author

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// This part of the package applies the fixes of problems to files.

// applyFixes writes the safe fixes of problems into their files, and returns the problems that are fixed.
// Of fixes that overlap only the first is applied; the others may be after another check. A file is replaced
// atomically; err has those that could not be written.
func applyFixes(problems diag.Problems) (fixed diag.Problems, err error) {
	byFile := map[string]diag.Problems{}
	for _, p := range problems {
		if p.Fix != nil && p.Fix.Safe && inOneFile(p) {
			byFile[p.File] = append(byFile[p.File], p)
		}
	}
	var failed diag.Problems
	for name, list := range byFile {
		done, err := apply(name, list)
		if err != nil {
			failed = append(failed, diag.Problem{Pos: diag.Pos{File: name}, Code: "fix", Message: "cannot be fixed: " + files.Cause(err).Error()})
			continue
		}
		fixed = append(fixed, done...)
	}
	if len(failed) > 0 {
		return fixed.Sorted(), failed.Sorted()
	}
	return fixed.Sorted(), nil
}

// inOneFile reports whether a fix changes the file of its problem and no other.
func inOneFile(p diag.Problem) bool {
	return p.File != "" && !strings.HasPrefix(p.File, "<") && !slices.ContainsFunc(p.Fix.Edits, func(e diag.Edit) bool { return e.File != p.File })
}

// change is an edit with offsets in bytes.
type change struct {
	from, to int
	text     string
}

func apply(name string, list diag.Problems) (fixed diag.Problems, err error) {
	data, err := files.Read(name, config.MaxFile)
	if err != nil {
		return nil, err
	}
	lines := starts(data)
	var changes []change
	for _, p := range list {
		mine, ok := changesOf(p.Fix, data, lines)
		if !ok || slices.ContainsFunc(mine, func(c change) bool { return slices.ContainsFunc(changes, c.touches) }) {
			continue
		}
		for _, c := range mine {
			if !slices.Contains(changes, c) {
				changes = append(changes, c)
			}
		}
		fixed = append(fixed, p)
	}
	if len(changes) == 0 {
		return nil, nil
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.from, b.from) })
	var out bytes.Buffer
	at := 0
	for _, c := range changes {
		out.Write(data[at:c.from])
		out.WriteString(c.text)
		at = c.to
	}
	out.Write(data[at:])
	return fixed, replace(name, out.Bytes())
}

// touches reports whether two changes overlap and differ.
func (c change) touches(other change) bool {
	return c != other && c.from < other.to && other.from < c.to
}

func changesOf(f *diag.Fix, data []byte, lines []int) (list []change, ok bool) {
	for _, e := range f.Edits {
		from, okFrom := offset(data, lines, e.Line, e.Column)
		to, okTo := offset(data, lines, e.EndLine, e.EndColumn)
		if !okFrom || !okTo || to < from {
			return nil, false
		}
		list = append(list, change{from, to, e.Text})
	}
	return list, true
}

// starts returns the offsets at which the lines of a text begin.
func starts(data []byte) []int {
	at := []int{0}
	for i, b := range data {
		if b == '\n' {
			at = append(at, i+1)
		}
	}
	return at
}

// offset returns the offset of a line and column, which count from 1, columns in characters.
func offset(data []byte, lines []int, line, column int) (int, bool) {
	if line < 1 || line > len(lines) || column < 1 {
		return 0, false
	}
	end := len(data)
	if line < len(lines) {
		end = lines[line] - 1
	}
	n := 1
	for i := range string(data[lines[line-1]:end]) {
		if n == column {
			return lines[line-1] + i, true
		}
		n++
	}
	return end, n == column
}

// line is the message for a fixed problem, in the form of a printed problem.
func line(p diag.Problem) string {
	return fmt.Sprintf("%s: fixed: %s [%s]", p.Pos, p.Fix.Title, p.Code)
}
