package proxy

import (
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/policy"

	"github.com/vmcp-dev/vmcp/script/check"
)

// This part of the package checks a configuration without starting anything.

// Check finds everything for which Proxy.Apply would refuse a configuration, including its scripts, libraries and
// workflows, and likely mistakes. A configuration that is itself invalid is checked as far as possible.
func Check(cfg *config.Config) diag.Problems {
	_, problems := CheckWith(cfg, catalog.Known{})
	return problems
}

// CheckWith is Check with known tools of backends, whose schemas give types to scripts. The program answers queries of
// editors; unsaved texts are in known.
func CheckWith(cfg *config.Config, known catalog.Known) (*check.Program, diag.Problems) {
	cfg.Complete()
	program, problems := catalog.Check(cfg, known)
	if !cfg.Broken("incomingAuth") {
		problems = append(problems, access(cfg)...)
	}
	return program, catalog.Judged(cfg, once(problems.Sorted()))
}

// access checks authentication and policies.
func access(cfg *config.Config) diag.Problems {
	_, problems := policy.Compile(cfg)
	if cfg.Partial() { // policies may name what could not be read
		problems, _ = problems.Split()
	}
	if err := auth.Check(cfg.IncomingAuth); err != nil {
		problems = append(problems, diag.Problem{Pos: cfg.Place("incomingAuth"), Code: "config", Message: err.Error()})
	}
	return problems
}

// once drops problems of the configuration about a schema or a duration that the check of the text reports at a
// narrower position.
func once(problems diag.Problems) diag.Problems {
	schemas, times := map[diag.Pos]bool{}, map[diag.Pos]bool{}
	for _, p := range problems {
		line := diag.Pos{File: p.File, Line: p.Line}
		schemas[line] = schemas[line] || p.Code == "schema"
		times[line] = times[line] || p.Code == config.DeclarationCode && strings.Contains(p.Message, "is not a duration")
	}
	return slices.DeleteFunc(problems, func(p diag.Problem) bool {
		line := diag.Pos{File: p.File, Line: p.Line}
		return p.Code == config.DeclarationCode && (strings.HasPrefix(p.Message, "not a JSON Schema") && schemas[line] || p.Path == "tool.timeout" && times[line])
	})
}

// CheckTools compiles the scripts and composite tools of a configuration, as Apply would, and returns the problems for
// which it would refuse them. It starts nothing, and reads only the libraries that they load.
func CheckTools(cfg *config.Config) diag.Problems {
	_, problems := catalog.Compile(cfg, catalog.Known{})
	return problems
}
