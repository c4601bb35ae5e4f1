package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/lock"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/proxy/catalog/texts"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// Scripts are what a configuration has of scripts, and what it holds its backends to: the other
// thing that is read from files before a catalog can be built.
type Scripts struct {
	tools []*ScriptedTool
	texts []*scriptText
	load  texts.Load
	hold  time.Duration // after which a run that sleeps is suspended
	pins  *pins
	// program is what is known of the texts without any tool of a backend.
	program *check.Program
	// cache has what checks found with the tools of other catalogs.
	cache *check.Cache
}

// A scriptText is the text of a scripted tool or of several, of a library or of tests.
type scriptText struct {
	entry  string // the tool, the file of several, or the name that scripts load
	source check.Source
	named  []diag.Pos // where each tool of source has its name
	bundle *config.Bundle
	made   []compiled
	failed bool // it does not compile, which is reported
	// problems are what the text shows without knowing any tool of a backend. They keep nothing
	// from being served that compiles.
	problems diag.Problems
}

// Isolated reports whether a script has to run in worker processes.
func (s *Scripts) Isolated() bool {
	return slices.ContainsFunc(s.tools, func(t *ScriptedTool) bool { return t.Isolated })
}

// deprecated warns of every composite tool, and says how to leave the format.
func deprecated(cfg *config.Config) (warnings diag.Problems) {
	for i, c := range cfg.CompositeTools {
		if c.Name == "" {
			continue // the configuration's own problem
		}
		warnings = append(warnings, diag.Problem{
			Pos: c.Pos, Path: fmt.Sprintf("compositeTools[%d]", i), Severity: diag.Warning, Code: "deprecated",
			Message: fmt.Sprintf("the format is deprecated; vmcp migrate-composite %s -f %s makes a script of it", c.Name, c.Pos.File),
		})
	}
	return warnings
}

// A compiler makes the scripts of a configuration, and collects what is wrong with them:
// all of it, for a mistake in one file hides none in another.
type compiler struct {
	cfg      *config.Config
	set      *Scripts
	problems diag.Problems
	bundled  *texts.Bundles
	given    Known
	made     []func()                 // what compiles the tools, once all texts were checked
	files    map[string][]*scriptText // of tools, by the names of their files
}

// Compile compiles every scripted tool of a configuration, and reads its pins. The problems are
// those for which it cannot be served; the texts have more.
func Compile(cfg *config.Config) (*Scripts, diag.Problems) { return compile(cfg, Known{}) }

func compile(cfg *config.Config, known Known) (*Scripts, diag.Problems) {
	bundled := &texts.Bundles{Libraries: known.Overlay.Load(texts.Libraries(cfg).Load)}
	load := legacy.With(script.Options{Load: bundled.Loader(cfg.ScriptedTools)}).Load
	c := &compiler{bundled: bundled, cfg: cfg, set: &Scripts{load: load, hold: cfg.Runs.Hold.Std(), cache: &check.Cache{Lean: true}}, given: known}
	c.libraries()
	for i := range cfg.ScriptedTools {
		c.configured(&cfg.ScriptedTools[i], fmt.Sprintf("scriptedTools[%d]", i))
	}
	c.folders()
	c.checkTexts()
	for _, make := range c.made {
		make()
	}
	for i := range cfg.CompositeTools {
		if cfg.CompositeTools[i].Raw.IsZero() {
			continue // the configuration's own problem
		}
		t, err := compileComposite(cfg, &cfg.CompositeTools[i])
		if err != nil {
			c.refuse(script.File{}, diag.Problem{Pos: cfg.CompositeTools[i].Pos, Code: "composite"}, placed(cfg, i, err))
			continue
		}
		c.set.tools = append(c.set.tools, t)
	}
	c.pins()
	errs, _ := c.problems.Sorted().Split()
	return c.set, errs
}

// placed says where in the configuration the problems of a composite tool are: package
// migrate has read a copy of it, and knows only their paths.
func placed(cfg *config.Config, i int, err error) error {
	var problems diag.Problems
	if !errors.As(err, &problems) {
		return err
	}
	problems = slices.Clone(problems)
	for j := range problems {
		p := &problems[j]
		if p.Path = strings.TrimSuffix(fmt.Sprintf("compositeTools[%d].%s", i, p.Path), "."); p.Pos.File == cfg.Place("").File {
			p.Pos = cfg.Place(p.Path)
		}
	}
	return problems
}

// add adds a text.
func (c *compiler) add(entry string, source check.Source) *scriptText {
	if source.Limits == (script.Limits{}) {
		source.Limits = generalLimits(c.cfg)
	}
	t := &scriptText{entry: entry, source: source}
	c.set.texts = append(c.set.texts, t)
	return t
}

// checkTexts checks all texts together, as far as they say something without the tools of backends. Where
// these are known, they are checked with them once all is compiled.
func (c *compiler) checkTexts() {
	if c.given.Lock != nil {
		return
	}
	tools := scriptedTools(c.set.texts)
	unknown := func(string) bool { return len(c.cfg.Backends)+len(c.cfg.CompositeTools) > 0 }
	c.set.program = c.set.check(tools, unknown, c.given)
	c.set.assign(c.set.program.Problems(), func(t *scriptText, p diag.Problem) { t.problems = append(t.problems, p) })
}

// refuse notes an error. What says no place of its own gets that of at.
func (c *compiler) refuse(f script.File, at diag.Problem, err error) {
	var (
		known diag.Problems
		list  script.Errors
		one   *script.Error
	)
	switch {
	case errors.As(err, &known):
		c.problems = append(c.problems, known...)
		return
	case errors.As(err, &list):
	case errors.As(err, &one) && one.Pos.IsValid():
		list = script.Errors{one}
	default:
		at.Message = err.Error()
		c.problems = append(c.problems, at)
	}
	for _, e := range list {
		if p := check.Problem(c.fileAt(f, e), at.Code, e); !c.known(p) {
			c.problems = append(c.problems, p)
		}
	}
}

// known reports whether a problem is there already, though of another kind: what cannot be
// parsed is found by the check of the text, and again when it is compiled.
func (c *compiler) known(p diag.Problem) bool {
	return slices.ContainsFunc(c.problems, func(other diag.Problem) bool {
		return other.Pos == p.Pos && other.Message == p.Message
	})
}

// fileAt is the file that an error of the engine stands in.
func (c *compiler) fileAt(f script.File, e *script.Error) script.File {
	for _, t := range c.set.texts {
		if t.source.Has(e.Pos) {
			return t.source.File
		}
	}
	return c.bundled.FileAt(e, f)
}

// pins reads what the backends are held to.
func (c *compiler) pins() {
	var err error
	if c.set.pins, err = readPins(c.cfg); err == nil {
		return
	}
	p, ok := errors.AsType[diag.Problem](err)
	if !ok {
		p = diag.Problem{Pos: c.cfg.Place("pins"), Path: "pins.file", Code: lock.Code, Message: err.Error()}
	}
	c.problems = append(c.problems, p)
}

// libraries adds every library, whether anything loads it or not.
func (c *compiler) libraries() {
	for i, l := range c.cfg.Libraries {
		if l.Path == "" {
			origin := c.cfg.Origin(fmt.Sprintf("libraries[%d].source", i))
			c.add(l.Name, check.Source{Kind: check.Library, File: script.File{Name: l.Name, Source: []byte(l.Source), Origin: origin}})
			continue
		}
		for _, name := range texts.Below(l.Path) {
			c.library(l.Path, name)
		}
	}
}

func (c *compiler) library(dir, name string) {
	kind := check.Library
	if files.IsTest(name) {
		kind = check.TestFile
	}
	origin := diag.InFile(filepath.Join(dir, name))
	source, err := c.given.Overlay.Read(dir, name)
	if err != nil {
		c.set.texts = append(c.set.texts, &scriptText{entry: name,
			problems: diag.Problems{{Pos: origin.Pos, Code: "load", Message: err.Error()}}})
		return
	}
	c.add(name, check.Source{Kind: kind, File: script.File{Name: filepath.ToSlash(name), Source: source, Origin: origin}})
}

// loadOf loads for one tool: its own version of its bundle.
func (c *compiler) loadOf(t *config.ScriptedTool) texts.Load {
	if t.Bundle == nil {
		return c.set.load
	}
	return legacy.With(script.Options{Load: c.bundled.LoadFor(t.Bundle)}).Load
}

// configured compiles a tool of the configuration.
func (c *compiler) configured(t *config.ScriptedTool, at string) {
	if t.Script == "" && t.ScriptFile == "" {
		return // the configuration's own problem
	}
	file := script.File{Name: t.Name + ".star", Source: []byte(t.Script), Origin: c.cfg.Origin(at + ".script")}
	if t.Bundle != nil {
		file.Name = texts.FileOf(t.Bundle, t.Bundle.File)
	}
	if t.ScriptFile != "" {
		source, err := c.readScript(t.ScriptFile)
		if err != nil {
			c.refuse(file, diag.Problem{Pos: c.cfg.Place(at + ".scriptFile"), Code: "config"}, err)
			return
		}
		file = script.File{Name: t.ScriptFile, Source: source, Origin: diag.InFile(t.ScriptFile)}
	}
	if t.Entry != "" {
		if p := check.CheckFunction(file, t.Entry); p != nil {
			p.Path, p.Pos = at+".entry", c.cfg.Place(at+".entry")
			if p.Line == 0 {
				p.Pos = file.Origin.Pos
			}
			c.problems = append(c.problems, *p)
			return
		}
	}
	declared := diag.Problem{Pos: c.cfg.Place(at), Path: at, Code: "schema"}
	c.tool(t, file, declared, declared.Pos)
}

// textOf is the text of a file that has tools, with one more.
func (c *compiler) textOf(name string, file script.File, bundle *config.Bundle, tool check.Entry, named diag.Pos) *scriptText {
	for _, t := range c.files[file.Name] {
		if t.source.Origin == file.Origin && bytes.Equal(t.source.Source, file.Source) && texts.Same(t.bundle, bundle) {
			t.entry = path.Base(filepath.ToSlash(file.Name))
			t.source.Tools, t.named = append(t.source.Tools, tool), append(t.named, named)
			return t
		}
	}
	t := c.add(name, check.Source{File: file, Tools: []check.Entry{tool}, Limits: tool.Limits})
	t.named, t.bundle = []diag.Pos{named}, bundle
	if c.files == nil {
		c.files = map[string][]*scriptText{}
	}
	c.files[file.Name] = append(c.files[file.Name], t)
	return t
}

// entryOf is a tool as checks know it.
func entryOf(cfg *config.Config, t *config.ScriptedTool) check.Entry {
	return check.Entry{Tool: t.Name, Function: t.Entry, Input: t.Parameters.JSON, Output: t.Output.JSON, Limits: toolLimits(cfg, t)}
}

// tool adds a scripted tool, and has it compiled; at is where it is declared, named where its name stands.
func (c *compiler) tool(t *config.ScriptedTool, file script.File, at diag.Problem, named diag.Pos) {
	text := c.textOf(t.Name, file, t.Bundle, entryOf(c.cfg, t), named)
	if c.cfg.Partial() {
		return
	}
	c.made = append(c.made, func() {
		made, err := compileScript(c.cfg, t, text, c.loadOf(t))
		if err != nil {
			if !text.failed {
				c.problems = append(c.problems, text.problems...)
			}
			text.failed = true
			c.refuse(file, diag.Problem{Pos: file.Origin.Pos, Code: "load"}, err)
			return
		}
		if err := made.compileSchemas(t); err != nil {
			c.refuse(file, at, err)
			return
		}
		c.set.tools = append(c.set.tools, made)
	})
}
