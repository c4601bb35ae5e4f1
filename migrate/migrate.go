// Package migrate translates workflows in ToolHive's YAML format into scripts.
//
// A definition is a graph of steps with Go templates. Parse reads definitions with the
// position of every field; Translate refuses those that the legacy engine refused, and writes a
// script with the same behaviour, in one of two styles:
//
//	defs, err := migrate.Parse("vmcp.yaml", data)
//	s, err := migrate.Translate(defs[0], migrate.Options{})
//	fmt.Print(s.Source)
//
// The package converts text to text: it reads no files and executes nothing.
package migrate

import (
	"encoding/json"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Style is how closely a script follows the engine that its workflow was written for.
type Style string

// The styles.
const (
	// Exact scripts behave like the legacy engine in everything that clients and tools
	// can observe. The compositeTools of a configuration are executed in this style.
	Exact Style = "exact"
	// Clean scripts are written as by a person; the notes say where they may behave
	// differently.
	Clean Style = "clean"
)

// Options say how to translate.
type Options struct {
	// Style is Exact by default.
	Style Style
	// Fix repairs mistakes whose meaning is unambiguous, with a note, instead of refusing the
	// definition: fields that never existed, parameters in the old form and the like.
	Fix bool
	// Checked says that the script will be a scripted tool: its arguments are validated and have
	// the defaults of the schema.
	Checked bool
}

// Script is a translated definition, with all settings of a scripted tool.
type Script struct {
	// Name and Description are those of the tool in tools/list.
	Name, Description string
	// Source is the text of the script.
	Source string
	// Parameters and Output are JSON Schemas; nil when the definition has none.
	Parameters, Output json.RawMessage
	// Timeout bounds a run; 0 is the default. A script in the exact style observes the
	// workflow's deadline itself, to fail with the legacy engine's error, so its
	// Timeout is longer than that by workflow.timeoutSlack.
	Timeout time.Duration
	// Deadline is the workflow's deadline, which a script in the exact style observes; else 0.
	Deadline time.Duration
	// Annotations are the tool's hints as a JSON object; nil when there are none.
	Annotations json.RawMessage
	// Unchecked says that the script needs the arguments as the client sent them: not
	// validated against Parameters, and without its defaults.
	Unchecked bool
	// Tools are the tools that the workflow calls, each once, in the order of the definition.
	Tools []Tool
	// Pos is the beginning of the definition in its file.
	Pos Pos
	// Notes are remarks for the author of the definition, in the order of the file.
	Notes []Note
	// Undeclared says that Notes name properties that templates use and the schema of the parameters or of a form does
	// not have. The checks of scripts report the same names in a clean script.
	Undeclared bool
}

// Tool is a tool that a workflow calls.
type Tool struct {
	Name string
	// Path is the field with its name, such as steps[2].tool.
	Path string
}

// Pos is a position in a file.
type Pos = diag.Pos
