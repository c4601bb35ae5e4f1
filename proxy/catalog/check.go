package catalog

import (
	"fmt"
	"slices"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"

	"github.com/vmcp-dev/vmcp/script/check"
)

// Check finds mistakes, and likely ones, in the scripts, libraries, tests and workflows of a configuration.
func Check(cfg *config.Config, known Known) (*check.Program, diag.Problems) {
	set, problems := Compile(cfg, known)
	if known.Lock == nil {
		for _, t := range set.Texts() {
			problems = append(problems, t.Problems...)
		}
		return set.Unaided(), append(problems, deprecated(cfg)...)
	}
	for _, t := range set.Texts() {
		if t.Source.Source == nil {
			problems = append(problems, t.Problems...)
		}
	}
	tools := lockedTools(cfg, known.Lock)
	for name, t := range set.Declared() {
		if hidden, taken := tools[name]; taken && hidden.Pos.File != hiddenTool {
			problems = append(problems, diag.Problem{Pos: t.Pos, Code: "tool-duplicate",
				Message: fmt.Sprintf("a backend has a tool %s, too: clients and scripts call the script", name), Hint: "rename one of the two"})
		}
		tools[name] = t
	}
	missing := notLocked(cfg, known.Lock)
	var unknown func(string) bool
	if len(missing)+len(cfg.CompositeTools) > 0 {
		unknown = func(name string) bool { return mayBeOf(cfg, missing, name) }
	}
	p := set.Check(tools, unknown, known)
	problems = append(problems, p.Problems()...)
	for _, i := range missing {
		problems = append(problems, diag.Problem{Pos: cfg.Place(fmt.Sprintf("backends[%d]", i)), Severity: diag.Warning, Code: "lock-incomplete",
			Message: fmt.Sprintf("the lock has no tools of the backend %s: calls of its tools are not checked", cfg.Backends[i].Name),
			Hint:    "vmcp lock --backend " + cfg.Backends[i].Name})
	}
	return p, append(problems, deprecated(cfg)...)
}

// Judged applies the severities of the configuration to problems, and drops those that it switches off.
func Judged(cfg *config.Config, problems diag.Problems) (told diag.Problems) {
	for _, p := range problems {
		if slices.Contains(cfg.Check.Ignore, p.Code) {
			continue
		}
		if s, ok := cfg.Check.Severity[p.Code]; ok {
			p.Severity = diag.Severity(s)
		}
		told = append(told, p)
	}
	return told
}

// deprecated returns a warning with the migration command for every composite tool.
func deprecated(cfg *config.Config) (warnings diag.Problems) {
	for i, c := range cfg.CompositeTools {
		if c.Name == "" {
			continue // reported by the configuration already
		}
		warnings = append(warnings, diag.Problem{
			Pos: c.Pos, Path: fmt.Sprintf("compositeTools[%d]", i), Severity: diag.Warning, Code: "deprecated",
			Message: fmt.Sprintf("the format is deprecated; vmcp migrate-composite %s -f %s makes a script of it", c.Name, c.Pos.File),
		})
	}
	return warnings
}
