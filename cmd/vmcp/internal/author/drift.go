package author

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// This part of the package finds what breaks in scripts because backends offer something else than vmcp.lock says.

// Problems returns a problem for each line of a script that a change breaks: one that passes its checks with the
// lock, and not with what the backends offer now. A change that breaks no line is reported at its
// entry in the lock.
func Problems(cfg *config.Config, locked, live *lock.File) (problems diag.Problems) {
	text, _ := os.ReadFile(cfg.Pins.Path) // without it they are reported at line 1
	each(cfg, locked, live, func(c lock.Change, broken diag.Problems) {
		if problems = append(problems, broken...); len(broken) > 0 {
			return
		}
		p := diag.Problem{Pos: diag.Pos{File: diag.File(cfg.Pins.Path), Line: lineOf(text, c.Name), Column: 1}, Code: "drift", Severity: diag.Warning,
			Message: fmt.Sprintf("%s changed since %s was written: %s (%s)", c.Name, lock.DefaultFile, describe(c), c.Class())}
		if c.Class() == lock.Breaking {
			p.Severity = diag.Error
		}
		problems = append(problems, p)
	})
	return problems
}

// broken returns only the lines of scripts that changes break.
func broken(cfg *config.Config, locked, live *lock.File) (problems diag.Problems) {
	each(cfg, locked, live, func(_ lock.Change, broken diag.Problems) { problems = append(problems, broken...) })
	return problems
}

// each calls f for every change, with the problems of scripts that it causes.
func each(cfg *config.Config, locked, live *lock.File, f func(lock.Change, diag.Problems)) {
	changes := lock.Compare(locked, live)
	if len(changes) == 0 {
		return
	}
	_, before := proxy.CheckWith(cfg, catalog.Known{Lock: locked})
	had := map[string]bool{}
	for _, p := range before {
		had[p.Error()] = true
	}
	for _, c := range changes {
		var broken diag.Problems
		if c.Name.Kind == lock.Tool && c.Class() == lock.Breaking {
			for _, p := range brokenBy(cfg, locked, live, c) {
				if !had[p.Error()] {
					p.Code, p.Severity, p.Fix = "drift", diag.Error, nil
					p.Message = fmt.Sprintf("%s changed since %s was written: %s: %s", c.Name, lock.DefaultFile, describe(c), p.Message)
					broken = append(broken, p)
				}
			}
		}
		f(c, broken)
	}
}

// brokenBy returns the problems of the scripts under the lock with this one change.
func brokenBy(cfg *config.Config, locked, live *lock.File, c lock.Change) diag.Problems {
	one := locked.Only(func(lock.Name) bool { return true })
	one.Take(live, c.Name)
	_, problems := proxy.CheckWith(cfg, catalog.Known{Lock: one})
	return problems
}

// describe describes a change in one line.
func describe(c lock.Change) string {
	switch {
	case c.Added():
		return "it is new"
	case c.Removed():
		return "it is gone"
	}
	var parts []string
	for _, d := range c.Details {
		part := d.Path
		if d.Note != "" {
			part += " " + d.Note
		}
		if d.Class == c.Class() {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}

// lineOf is the number of an entry's line in the text of a lock.
func lineOf(text []byte, n lock.Name) int {
	i := bytes.Index(text, []byte(fmt.Sprintf("%q: {", n.String())))
	if i < 0 {
		return 1
	}
	return 1 + bytes.Count(text[:i], []byte("\n"))
}
