package migration

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// checkScripts compiles and checks what is going to be printed or written: a server does not start with a script that
// does not compile. The error names the workflows, for nobody has the text of the scripts yet.
func checkScripts(scripts []*migrate.Script, style string) error {
	var problems []error
	for _, s := range scripts {
		if err := checkScript(s, style); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

func checkScript(s *migrate.Script, style string) error {
	file := script.File{Name: s.Name + ".star", Source: []byte(s.Source)}
	if _, err := script.Compile(file, legacy.With(script.Options{Builtins: builtins.All()})); err != nil {
		return cli.WithHint(
			fmt.Errorf("%s: %s: the %s script does not compile, which is a bug of this command: %w", s.Pos, s.Name, style, err),
			"nothing was written; please report the workflow")
	}
	source := check.Source{File: file, Tools: []check.Entry{{Tool: s.Name, Input: s.Parameters, Output: s.Output}}}
	var found []string
	for _, p := range check.Check([]check.Source{source}, check.Options{Builtins: builtins.Table()}).Problems() {
		if p.Severity != diag.Warning && !(s.Undeclared && undeclared[p.Code]) {
			found = append(found, p.Error())
		}
	}
	if found == nil {
		return nil
	}
	return cli.WithHint(
		fmt.Errorf("%s: %s: vmcp check refuses the %s script, which is a bug of this command unless a template uses a value that is of another type:\n%s", s.Pos, s.Name, style, strings.Join(found, "\n")),
		"nothing was written; --style exact keeps what the templates do, mistakes included")
}

// undeclared are the codes of problems that the notes about a workflow tell at their places in the YAML.
var undeclared = map[string]bool{"parameter-unknown": true, "result-field": true}
