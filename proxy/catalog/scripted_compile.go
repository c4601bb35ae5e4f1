package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/migrate/legacy"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// A compiler compiles the scripts of a configuration, and collects all problems: a mistake in one file does not hide
// those in others.
type scriptedCompiler struct {
	cfg      *config.Config
	set      *Set
	problems diag.Problems
	bundled  *bundles
	given    Known
	made     []func()           // compile the tools, once all texts were checked
	files    map[string][]*Text // texts of tools, by file name
	most     int64              // bytes of a file
}

// Compile compiles every scripted tool of a configuration, and reads its pins. The returned problems are those for
// which the configuration cannot be served; the Texts have further ones.
func Compile(cfg *config.Config, known Known) (*Set, diag.Problems) {
	bundled := &bundles{Libraries: known.Overlay.Load(libraries(cfg).Load)}
	load := legacy.With(script.Options{Load: bundled.Loader(cfg.ScriptedTools)}).Load
	c := &scriptedCompiler{bundled: bundled, cfg: cfg, set: &Set{load: load, cache: &check.Cache{Lean: true}}, given: known, most: sourceBound(cfg)}
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
			continue // reported by the configuration already
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

// placed adds the position in the configuration to the problems of a composite tool: package migrate has only their
// paths, since it reads a copy.
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
func (c *scriptedCompiler) add(entry string, source check.Source) *Text {
	if source.Limits == (script.Limits{}) {
		source.Limits = generalLimits(c.cfg)
	}
	t := &Text{Entry: entry, Source: source}
	c.set.texts = append(c.set.texts, t)
	return t
}

// checkTexts checks all texts together without the tools of backends, or, if these are known, defers the check until
// all is compiled.
func (c *scriptedCompiler) checkTexts() {
	if c.given.Lock != nil {
		return
	}
	tools := c.set.Declared()
	unknown := func(string) bool { return len(c.cfg.Backends)+len(c.cfg.CompositeTools) > 0 }
	c.set.unaided = c.set.Check(tools, unknown, c.given)
	c.set.Assign(c.set.unaided.Problems(), func(t *Text, p diag.Problem) { t.Problems = append(t.Problems, p) })
}

// refuse records an error; one without a position gets that of at.
func (c *scriptedCompiler) refuse(f script.File, at diag.Problem, err error) {
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
		c.problems = append(c.problems, c.known(check.Problem(c.fileAt(f, e), at.Code, e)))
	}
}

// known finds the same problem among those reported, with another code: a syntax error is found by the check of the
// text, and again when the text, or one that loads it, is compiled.
func (c *scriptedCompiler) known(p diag.Problem) diag.Problem {
	same := func(other diag.Problem) bool { return other.Pos == p.Pos && other.Message == p.Message }
	if i := slices.IndexFunc(c.problems, same); i >= 0 {
		return c.problems[i]
	}
	for _, t := range c.set.texts {
		if i := slices.IndexFunc(t.Problems, same); i >= 0 {
			return t.Problems[i]
		}
	}
	return p
}

// fileAt is the file in which an error of the interpreter occurred.
func (c *scriptedCompiler) fileAt(f script.File, e *script.Error) script.File {
	for _, t := range c.set.texts {
		if t.Source.Has(e.Pos) {
			return t.Source.File
		}
	}
	return c.bundled.FileAt(e, f)
}

// pins reads the lock file.
func (c *scriptedCompiler) pins() {
	var err error
	if c.set.pins, err = read(c.cfg); err == nil {
		return
	}
	p, ok := errors.AsType[diag.Problem](err)
	if !ok {
		p = diag.Problem{Pos: c.cfg.Place("pins"), Path: "pins.file", Code: lock.Code, Message: err.Error()}
	}
	c.problems = append(c.problems, p)
}

// libraries adds every library, even if nothing loads it.
func (c *scriptedCompiler) libraries() {
	for i, l := range c.cfg.Libraries {
		if l.Path == "" {
			origin := c.cfg.Origin(fmt.Sprintf("libraries[%d].source", i))
			c.add(l.Name, check.Source{Kind: check.Library, File: script.File{Name: l.Name, Source: []byte(l.Source), Origin: origin}})
			continue
		}
		for _, name := range below(l.Path) {
			c.library(l.Path, name)
		}
	}
}

func (c *scriptedCompiler) library(dir, name string) {
	kind := check.Library
	if files.IsTest(name) {
		kind = check.TestFile
	}
	origin := diag.InFile(filepath.Join(dir, name))
	source, err := c.given.Overlay.read(dir, name, c.most)
	if err != nil {
		c.set.texts = append(c.set.texts, &Text{Entry: name,
			Problems: diag.Problems{{Pos: origin.Pos, Code: "load", Message: files.Cause(err).Error()}}})
		return
	}
	c.add(name, check.Source{Kind: kind, File: script.File{Name: filepath.ToSlash(name), Source: source, Origin: origin}})
}

// loadOf is the loader for one tool, with its version of its bundle.
func (c *scriptedCompiler) loadOf(t *config.ScriptedTool) Load {
	if t.Bundle == nil {
		return c.set.load
	}
	return legacy.With(script.Options{Load: c.bundled.LoadFor(t.Bundle)}).Load
}

// configured compiles a tool of the configuration.
func (c *scriptedCompiler) configured(t *config.ScriptedTool, at string) {
	if t.Script == "" && t.ScriptFile == "" {
		return // reported by the configuration already
	}
	file := script.File{Name: t.Name + ".star", Source: []byte(t.Script), Origin: c.cfg.Origin(at + ".script")}
	if t.Bundle != nil {
		file.Name = fileOf(t.Bundle, t.Bundle.File)
	}
	if t.ScriptFile != "" {
		source, err := c.readScript(t.ScriptFile)
		if err != nil && c.cfg.Broken(at+".scriptFile") {
			return
		}
		if err != nil {
			c.refuse(file, diag.Problem{Pos: c.cfg.Place(at + ".scriptFile"), Code: "config"}, err)
			return
		}
		file = script.File{Name: t.ScriptFile, Source: source, Origin: diag.InFile(t.ScriptFile)}
	}
	if t.Entry != "" {
		if p := check.CheckFunction(file, toolLimits(c.cfg, t), t.Entry); p != nil {
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

// textOf is the text of a file with one more tool in it.
func (c *scriptedCompiler) textOf(name string, file script.File, bundle *config.Bundle, tool check.Entry, named diag.Pos) *Text {
	for _, t := range c.files[file.Name] {
		if t.Source.Origin == file.Origin && bytes.Equal(t.Source.Source, file.Source) && sameBundle(t.bundle, bundle) {
			t.Entry = path.Base(filepath.ToSlash(file.Name))
			t.Source.Tools, t.named = append(t.Source.Tools, tool), append(t.named, named)
			return t
		}
	}
	t := c.add(name, check.Source{File: file, Tools: []check.Entry{tool}, Limits: tool.Limits})
	t.named, t.bundle = []diag.Pos{named}, bundle
	if c.files == nil {
		c.files = map[string][]*Text{}
	}
	c.files[file.Name] = append(c.files[file.Name], t)
	return t
}

// entryOf is a tool as checks see it.
func entryOf(cfg *config.Config, t *config.ScriptedTool) check.Entry {
	return check.Entry{Tool: t.Name, Function: t.Entry, Input: t.Parameters.JSON, Output: t.Output.JSON, Limits: toolLimits(cfg, t)}
}

// tool adds a scripted tool to be compiled; at is the position of its declaration, named that of its name.
func (c *scriptedCompiler) tool(t *config.ScriptedTool, file script.File, at diag.Problem, named diag.Pos) {
	text := c.textOf(t.Name, file, t.Bundle, entryOf(c.cfg, t), named)
	if c.cfg.Partial() {
		return
	}
	c.made = append(c.made, func() {
		made, err := compileScript(c.cfg, t, text, c.loadOf(t))
		if err != nil {
			if !text.failed {
				c.problems = append(c.problems, text.Problems...)
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
