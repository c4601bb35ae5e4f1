package migrate

import "github.com/vmcp-dev/vmcp/migrate/internal/workflow"

// Definition is one workflow of a file, read but not checked.
type Definition = workflow.Definition

// File has the workflows of a file, and the references to others.
type File = workflow.File

// Parse finds the workflows in a file: a configuration with compositeTools, one
// definition or a list of them, or Kubernetes manifests of the kinds
// VirtualMCPCompositeToolDefinition and VirtualMCPServer. A file may have several documents.
//
// The error is about the file as a whole; mistakes in a definition are in the
// error of Translate.
func Parse(filename string, data []byte) ([]*Definition, error) {
	return workflow.Parse(filename, data)
}

// ParseAt is Parse for one definition in JSON, which a configuration has converted from YAML.
// All its problems have the position pos; their paths name the field.
func ParseAt(pos Pos, data []byte) (*Definition, error) { return workflow.ParseAt(pos, data) }

// ParseResource is Parse for the spec of a Kubernetes resource without the resource around it.
func ParseResource(filename string, data []byte) (*Definition, error) {
	return workflow.ParseResource(filename, data)
}

// ParseLax is Parse for one definition of which unknown fields are dropped.
func ParseLax(filename string, data []byte) (*Definition, error) {
	return workflow.ParseLax(filename, data)
}

// Find is Parse with the references, and without an error for a file without a workflow.
func Find(filename string, data []byte) (*File, error) { return workflow.Find(filename, data) }

// NoWorkflow is the error of a file without a workflow.
func NoWorkflow(filename string) error { return workflow.NoWorkflow(filename) }
