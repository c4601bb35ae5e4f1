package proxy

import (
	"fmt"
	"log/slog"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/policy"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// Check is Apply stopped before anything starts: it finds everything that is wrong with a
// configuration, its scripts, libraries and workflows, and what may not be meant.
// A configuration with problems of its own is checked as far as it goes.
func Check(cfg *config.Config) diag.Problems {
	cfg.Complete()
	problems := catalog.Check(cfg)
	if err := auth.Check(cfg.IncomingAuth); err != nil && !cfg.Partial() {
		problems = append(problems, diag.Problem{Pos: cfg.Place("incomingAuth"), Code: "config", Message: err.Error()})
	}
	if !cfg.Partial() {
		_, found := policy.Compile(cfg)
		problems = append(problems, found...)
	}
	return problems.Sorted()
}

// warnComposites says, once per tool and configuration, how to leave the old format.
func warnComposites(log *slog.Logger, cfg *config.Config) {
	for _, c := range cfg.CompositeTools {
		log.Warn("composite tools are deprecated; this one runs as a script",
			"tool", c.Name, "pos", fmt.Sprintf("%s:%d:%d", c.Pos.File, c.Pos.Line, c.Pos.Column),
			"migrate", "vmcp migrate-composite "+c.Name+" -f "+c.Pos.File)
	}
}
