package catalog

import (
	"slices"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/suite"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/diag"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// This part of the package compiles the scripts of a configuration to tools: it finds their sources in the configuration, in
// files and in folders, compiles them, and checks them. All that it knows of backends is the tools that a check may
// use.

// A Set is the scripts and the pins of a configuration: what is read from files before a catalog can be built. The zero
// value has no scripts.
type Set struct {
	tools []*ScriptedTool
	texts []*Text
	load  Load
	pins  *Pins
	// unaided is the result of checking without any tool of a backend.
	unaided *check.Program
	// cache has the results of checks with the tools of other catalogs.
	cache *check.Cache
}

// A Text is one source file: of one scripted tool or of several, of a library, or of tests.
type Text struct {
	Entry  string       // the tool, the file if it has several, or the name by which scripts load it
	Source check.Source // without a text if it cannot be read; the reason is in Problems
	// Problems are found without any tool of a backend. They do not prevent serving what compiles.
	Problems diag.Problems
	named    []diag.Pos // positions of the names of Source.Tools
	bundle   *config.Bundle
	made     []compiled
	failed   bool // it does not compile, which was reported
}

// Known is what is known when a configuration is checked. The zero value is nothing: only what needs no tool of a
// backend is checked then.
type Known struct {
	// Lock has the tools of the backends; nil if they are not known.
	Lock *lock.File
	// Overlay has unsaved texts of files.
	Overlay Overlay
	// Last is the result for earlier texts, see check.Options.
	Last *check.Program
	// Cache has the results of earlier checks, see check.Options; nil: nothing is cached.
	Cache *check.Cache
}

// Tools are the scripted tools that compile, in the order of the configuration.
func (s *Set) Tools() []*ScriptedTool { return s.tools }

// Names are the names of Tools.
func (s *Set) Names() (names []string) {
	for _, t := range s.tools {
		names = append(names, t.Name)
	}
	return names
}

// Tool returns a scripted tool and its file; nil if there is none of that name. A composite tool has no file.
func (s *Set) Tool(name string) (*ScriptedTool, script.File) {
	i := slices.IndexFunc(s.tools, func(t *ScriptedTool) bool { return t.Name == name })
	if i < 0 {
		return nil, script.File{}
	}
	for _, t := range s.texts {
		if t.Source.Kind == check.ToolFile && slices.ContainsFunc(t.Source.Tools, func(e check.Entry) bool { return e.Tool == name }) {
			return s.tools[i], t.Source.File
		}
	}
	return s.tools[i], script.File{}
}

// Texts are all texts, including those of tools that do not compile.
func (s *Set) Texts() []*Text { return s.texts }

// Pins are the pinned definitions of the backends; nil for none.
func (s *Set) Pins() *Pins { return s.pins }

// Cache has the results of checks with the tools of other catalogs.
func (s *Set) Cache() *check.Cache { return s.cache }

// Unaided is the result of checking without any tool of a backend; nil if the texts were compiled with a lock.
func (s *Set) Unaided() *check.Program { return s.unaided }

// Load finds the file that load(name) in the file from means.
func (s *Set) Load(from, name string) (script.File, error) { return s.load(from, name) }

// Isolated reports whether a script has to run in worker processes.
func (s *Set) Isolated() bool {
	return slices.ContainsFunc(s.tools, func(t *ScriptedTool) bool { return t.Isolated })
}

// Declared are the scripted tools, as checks see them, by name.
func (s *Set) Declared() map[string]check.Tool {
	tools := map[string]check.Tool{}
	for _, t := range s.texts {
		for i, e := range t.Source.Tools {
			if e.Tool != "" {
				tools[e.Tool] = check.Tool{Input: orAnyObject(e.Input), Output: e.Output, Script: true, Pos: t.named[i]}
			}
		}
	}
	return tools
}

// Check checks all texts together, with the tools that they can call. unknown reports whether a name that is not in
// tools may nevertheless be a tool; nil: none may.
func (s *Set) Check(tools map[string]check.Tool, unknown func(string) bool, known Known) *check.Program {
	var sources []check.Source
	for _, t := range s.texts {
		if t.Source.Source != nil {
			sources = append(sources, t.Source)
		}
	}
	return check.Check(sources, check.Options{Builtins: builtins.Table(), Tools: tools, Unknown: unknown, TestBuiltins: suite.Table(), Load: s.load,
		Last: known.Last, Cache: known.Cache})
}

// Assign calls to for each problem with the text that it is in.
func (s *Set) Assign(problems diag.Problems, to func(*Text, diag.Problem)) {
	for _, p := range problems {
		i := slices.IndexFunc(s.texts, func(t *Text) bool { return t.Source.Source != nil && t.Source.Holds(p.Pos) })
		if i >= 0 {
			to(s.texts[i], p)
		}
	}
}
