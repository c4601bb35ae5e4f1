package lsp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/suite"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/lock"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// configName is the name of a configuration that is looked for above a document.
const configName = "vmcp.yaml"

// project is a configuration with its scripts, or a single script without one.
type project struct {
	config string // an absolute path; "" for a script that belongs to none
	script string // an absolute path, without a configuration
	// program is what is known of the scripts by the last check, and problems what it found.
	program  *check.Program
	problems diag.Problems
	texts    map[string]version // the open documents as they were when that check began
	cache    check.Cache
}

// version is one text of a document.
type version struct {
	number int
	text   *text
}

// configOf is the configuration that a file belongs to: it itself, or the nearest one above it.
func configOf(path string) string {
	if isYAML(path) {
		return path
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		name := filepath.Join(dir, configName)
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			return name
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

func isYAML(path string) bool {
	return slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path))
}

// checked is what a check has found.
type checked struct {
	project  *project
	program  *check.Program
	problems diag.Problems
	texts    map[string]version
}

// check checks a project as its files are now, with the texts that are not saved. It does not
// touch the project, and may run beside everything else.
func (p *project) check(unsaved catalog.Overlay, lockFile string, last *check.Program) checked {
	if p.config == "" {
		return p.checkAlone(unsaved[p.script], last)
	}
	data, ok := unsaved[p.config]
	if !ok {
		var err error
		if data, err = config.ReadFile(p.config); err != nil {
			return checked{project: p, program: last}
		}
	}
	cfg, problems := config.Read(p.config, data)
	if cfg == nil {
		return checked{project: p, program: last, problems: problems}
	}
	known := catalog.Known{Overlay: unsaved, Last: last, Cache: &p.cache}
	if lockFile == "" {
		lockFile = cfg.Pins.Path
	}
	if locked, err := lock.Read(lockFile); err == nil {
		known.Lock = locked
	}
	program, found := catalog.Check(cfg, known)
	result := checked{project: p, program: program, problems: append(problems, found...).OnePerPlace()}
	if program == nil {
		result.program = last
	}
	return result
}

// sourceOf is a script as it is checked without a configuration that says what it is: with the tools that it declares.
func sourceOf(f script.File) check.Source {
	src := check.Source{File: f, Kind: check.Library}
	declared, _ := check.ReadDeclarations(f) // their problems are told by the check
	switch {
	case files.IsTest(f.Name):
		src.Kind = check.TestFile
	case len(declared) > 0 || strings.Contains(string(f.Source), "def run("):
		src.Kind = check.ToolFile
		for _, d := range declared {
			src.Tools = append(src.Tools, d.Tool())
		}
	}
	return src
}

// checkAlone checks a script that belongs to no configuration.
func (p *project) checkAlone(data []byte, last *check.Program) checked {
	if data == nil {
		var err error
		if data, err = files.Read(p.script, config.MaxFile); err != nil {
			return checked{project: p, program: last}
		}
	}
	s := sourceOf(script.File{Name: filepath.Base(p.script), Source: data, Origin: diag.InFile(p.script)})
	program := check.Check([]check.Source{s}, check.Options{Builtins: builtins.Table(), TestBuiltins: suite.Table(), Last: last})
	return checked{project: p, program: program, problems: program.Problems()}
}
