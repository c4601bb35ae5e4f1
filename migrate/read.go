package migrate

import "github.com/vmcp-dev/vmcp/migrate/internal/workflow"

// Definition is one workflow as it stands in a file.
type Definition = workflow.Definition

// File is what a file has of workflows.
type File = workflow.File

// Parse finds the workflows in a file: a configuration with compositeTools, one
// definition or a list of them, or Kubernetes manifests of the kinds
// VirtualMCPCompositeToolDefinition and VirtualMCPServer; several documents too.
//
// The error says why the file cannot be read; what is wrong with a definition is the
// error of Translate.
func Parse(filename string, data []byte) ([]*Definition, error) {
	return workflow.Parse(filename, data)
}

// ParseAt is Parse for one definition that is not in a file as it is: a configuration
// has kept it as JSON. Everything in it is reported at pos; paths still name the field.
func ParseAt(pos Pos, data []byte) (*Definition, error) { return workflow.ParseAt(pos, data) }

// ParseResource is Parse for the spec of a Kubernetes resource that stands alone.
func ParseResource(filename string, data []byte) (*Definition, error) {
	return workflow.ParseResource(filename, data)
}

// ParseLax is Parse for one definition of which unknown fields are dropped.
func ParseLax(filename string, data []byte) (*Definition, error) {
	return workflow.ParseLax(filename, data)
}

// Find is Parse with the references, for a file that need not have a workflow.
func Find(filename string, data []byte) (*File, error) { return workflow.Find(filename, data) }

// NoWorkflow is the error of a file without a workflow.
func NoWorkflow(filename string) error { return workflow.NoWorkflow(filename) }
