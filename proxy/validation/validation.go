// Package validation finds what is wrong with a configuration, before anything is started.
package validation

import (
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/policy"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/script/check"
)

// Check is what Proxy.Apply does before anything starts: it finds everything that is wrong with a
// configuration, its scripts, libraries and workflows, and what may not be meant.
// A configuration with problems of its own is checked as far as it goes.
func Check(cfg *config.Config) diag.Problems {
	_, problems := CheckWith(cfg, catalog.Known{})
	return problems
}

// CheckWith is Check with what is known of the tools of backends: types are followed from their
// schemas. The program answers what editors ask; texts that are not saved yet are in known.
func CheckWith(cfg *config.Config, known catalog.Known) (*check.Program, diag.Problems) {
	cfg.Complete()
	program, problems := catalog.Check(cfg, known)
	if err := auth.Check(cfg.IncomingAuth); err != nil && !cfg.Partial() {
		problems = append(problems, diag.Problem{Pos: cfg.Place("incomingAuth"), Code: "config", Message: err.Error()})
	}
	if !cfg.Partial() {
		_, found := policy.Compile(cfg)
		problems = append(problems, found...)
	}
	return program, catalog.Judged(cfg, once(problems.Sorted()))
}

// once leaves out what the configuration says of a schema or time that the check of its text has found,
// at a narrower place.
func once(problems diag.Problems) diag.Problems {
	schemas, times := map[diag.Pos]bool{}, map[diag.Pos]bool{}
	for _, p := range problems {
		line := diag.Pos{File: p.File, Line: p.Line}
		schemas[line] = schemas[line] || p.Code == "schema"
		times[line] = times[line] || p.Code == config.DeclarationCode && strings.Contains(p.Message, "is no duration")
	}
	return slices.DeleteFunc(problems, func(p diag.Problem) bool {
		line := diag.Pos{File: p.File, Line: p.Line}
		return p.Code == config.DeclarationCode && (strings.HasPrefix(p.Message, "not a JSON Schema") && schemas[line] || p.Path == "tool.timeout" && times[line])
	})
}

// CheckTools compiles the scripts and composite tools of a configuration, as Apply would, and returns what
// keeps them from being served. Nothing is started or read but the libraries that they name.
func CheckTools(cfg *config.Config) diag.Problems {
	_, problems := catalog.Compile(cfg)
	return problems
}
