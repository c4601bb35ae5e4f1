package editor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/suite"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/proxy/catalog"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// configName is the name of the configuration that is searched for in the folders above a document.
const configName = "vmcp.yaml"

// project is what is checked at once: a configuration with its scripts, or one script without a configuration.
type project struct {
	config string // an absolute path; "" for a script without a configuration
	script string // the absolute path of a script without a configuration
	// program and problems are the results of the last check; program is nil before the first.
	program  *check.Program
	problems diag.Problems
	texts    map[string]version // the open documents as that check saw them
	cache    check.Cache
}

// version is the text of a document at one of its versions.
type version struct {
	number int
	text   *text
}

// configOf is the configuration that a file belongs to: itself, or the nearest vmcp.yaml above it; "" for none.
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

// checked is the result of a check.
type checked struct {
	project  *project
	program  *check.Program
	problems diag.Problems
	texts    map[string]version
}

// check checks a project: its files on disk, with the unsaved texts in place of theirs. It runs in a goroutine of its own and
// uses of the project only the paths, which do not change, and the cache, which nothing else uses.
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

// sourceOf is a script without a configuration as it is checked: with the tools that it declares.
func sourceOf(f script.File) check.Source {
	src := check.Source{File: f, Kind: check.Library}
	declared, _ := check.ReadDeclarations(f, script.Limits{}) // the check reports their problems
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

// checkAlone checks a script without a configuration.
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
