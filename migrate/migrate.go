// Package migrate turns workflows in ToolHive's YAML format into scripts.
//
// A definition is a graph of steps with Go templates. Parse reads definitions with the
// place of every field, and refuses what the legacy engine refused; Translate writes a
// script that does the same, in one of two styles:
//
//	defs, err := migrate.Parse("vmcp.yaml", data)
//	s, err := migrate.Translate(defs[0], migrate.Options{})
//	fmt.Print(s.Source)
//
// The package is a pure function of text: it reads no files and runs nothing.
package migrate

import (
	"encoding/json"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/migrate/internal/workflow"
)

// Style is how close a script keeps to the engine that its workflow was written for.
type Style string

// The styles.
const (
	// Exact scripts do what the legacy engine did, in everything that clients and tools
	// can observe. It is what runs when a configuration has compositeTools.
	Exact Style = "exact"
	// Clean scripts are what a person would have written; the notes say where they may
	// do something else.
	Clean Style = "clean"
)

// Options say how to translate.
type Options struct {
	// Style is Exact by default.
	Style Style
	// Fix translates what a definition meant where it is plain what that is, instead of
	// refusing it: fields that never existed, parameters in the old form and the like.
	Fix bool
	// Checked says that the script is to be a scripted tool: its arguments are validated,
	// and have the defaults of the schema, before it gets them.
	Checked bool
}

// Script is a translated definition: all that a scripted tool needs.
type Script struct {
	// Name and Description are what clients see.
	Name, Description string
	// Source is the text of the script.
	Source string
	// Parameters and Output are JSON Schemas; nil when the definition has none.
	Parameters, Output json.RawMessage
	// Timeout bounds a run; 0 is the default. A script in the exact style keeps the
	// workflow's own deadline itself and ends with the legacy engine's words, so its
	// Timeout is a little longer than that.
	Timeout time.Duration
	// Deadline is the workflow's own, which a script in the exact style keeps; else 0.
	Deadline time.Duration
	// Annotations are the tool's hints as a JSON object; nil when there are none.
	Annotations json.RawMessage
	// Unchecked says that the arguments must come to the script as the client sent them:
	// not validated against Parameters, and without its defaults.
	Unchecked bool
	// Tools are the tools that the workflow calls, each once, in the order of the definition.
	Tools []Tool
	// Pos is where the definition begins.
	Pos Pos
	// Notes are for a person to read.
	Notes []Note
}

// Tool is a tool that a workflow calls.
type Tool struct {
	Name string
	// Path is the field that names it, such as steps[2].tool.
	Path string
}

// Pos is a place in a file.
type Pos = diag.Pos

// Note is something about a definition that deserves a human's eye.
type Note = workflow.Note
