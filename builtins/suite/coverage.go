package suite

import (
	"fmt"
	"io"
	"slices"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/script"
)

// Coverage is what the plain runs of tests reached of the scripts.
type Coverage struct {
	Files []CoveredFile `json:"files"`
}

// CoveredFile is the coverage of one file.
type CoveredFile struct {
	File       string `json:"file"`
	Statements Share  `json:"statements"`
	Branches   Share  `json:"branches"`
	// Missing are the lines of statements that were not reached, and of branches with an outcome that did not occur.
	Missing []int `json:"missing"`

	lines    map[int]int64 // how often each was reached
	branches []branch
}

// Share is a part of a whole.
type Share struct {
	Covered int `json:"covered"`
	Total   int `json:"total"`
}

// Percent returns the share in percent; 100 if the whole is 0.
func (s Share) Percent() float64 {
	if s.Total == 0 {
		return 100
	}
	return 100 * float64(s.Covered) / float64(s.Total)
}

func (s *Share) count(covered bool) {
	s.Total++
	if covered {
		s.Covered++
	}
}

// branch is a branch with two outcomes.
type branch struct {
	line, column int
	ways         [2]int64
}

type pointKey struct {
	file         string
	line, column int
	branch       bool
}

// coverageOf sums up the counts: a file may be part of several programs.
func coverageOf(set *script.Coverage) *Coverage {
	sums := map[pointKey][2]int64{}
	var keys []pointKey
	for _, p := range set.Points() {
		name := p.Pos.Filename()
		if files.IsTest(name) {
			continue
		}
		key := pointKey{name, int(p.Pos.Line), int(p.Pos.Col), p.Branch}
		sum, known := sums[key]
		if !known {
			keys = append(keys, key)
		}
		ways := p.Ways()
		sums[key] = [2]int64{sum[0] + ways[0], sum[1] + ways[1]}
	}
	c := &Coverage{Files: []CoveredFile{}}
	for _, key := range keys {
		c.add(key, sums[key])
	}
	for i := range c.Files {
		slices.Sort(c.Files[i].Missing)
		c.Files[i].Missing = slices.Compact(c.Files[i].Missing)
	}
	return c
}

// add adds a point, after those of the files before it.
func (c *Coverage) add(key pointKey, ways [2]int64) {
	name := diag.File(key.file)
	if n := len(c.Files); n == 0 || c.Files[n-1].File != name {
		c.Files = append(c.Files, CoveredFile{File: name, Missing: []int{}, lines: map[int]int64{}})
	}
	f := &c.Files[len(c.Files)-1]
	if !key.branch {
		f.Statements.count(ways[0] > 0)
		if before, known := f.lines[key.line]; !known || ways[0] < before {
			f.lines[key.line] = ways[0]
		}
		if ways[0] == 0 {
			f.Missing = append(f.Missing, key.line)
		}
		return
	}
	f.branches = append(f.branches, branch{key.line, key.column, ways})
	for _, n := range ways {
		f.Branches.count(n > 0)
		if n == 0 {
			f.Missing = append(f.Missing, key.line)
		}
	}
}

// Total returns the coverage of all files together.
func (c *Coverage) Total() (statements, branches Share) {
	for _, f := range c.Files {
		statements.Covered += f.Statements.Covered
		statements.Total += f.Statements.Total
		branches.Covered += f.Branches.Covered
		branches.Total += f.Branches.Total
	}
	return statements, branches
}

// WriteLCOV writes the coverage in the format of lcov.
func (c *Coverage) WriteLCOV(w io.Writer) error {
	for _, f := range c.Files {
		if err := f.writeLCOV(w); err != nil {
			return err
		}
	}
	return nil
}

func (f *CoveredFile) writeLCOV(w io.Writer) (err error) {
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	line("TN:")
	line("SF:%s", f.File)
	for i, b := range f.branches {
		for way, n := range b.ways {
			taken := fmt.Sprint(n)
			if b.ways == [2]int64{} {
				taken = "-"
			}
			line("BRDA:%d,%d,%d,%s", b.line, i, way, taken)
		}
	}
	line("BRF:%d", f.Branches.Total)
	line("BRH:%d", f.Branches.Covered)
	hit := 0
	var lines []int
	for n := range f.lines {
		lines = append(lines, n)
	}
	slices.Sort(lines)
	for _, n := range lines {
		if f.lines[n] > 0 {
			hit++
		}
		line("DA:%d,%d", n, f.lines[n])
	}
	line("LF:%d", len(lines))
	line("LH:%d", hit)
	line("end_of_record")
	return err
}
