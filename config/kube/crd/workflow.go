package crd

import "github.com/vmcp-dev/vmcp/config"

// anything is JSON of any type.
type anything struct{}

// workflow is the schema of a VirtualMCPCompositeToolDefinition and of the compositeTools of a server: ToolHive's
// format. Its content is checked when it is compiled.
type workflow struct {
	// Name is what clients call.
	Name string `json:"name" crd:"yes" max:"64"`
	// Description is the description of the tool for the model.
	Description string `json:"description" crd:"yes"`
	// Parameters is the JSON Schema of the arguments.
	Parameters config.Raw `json:"parameters,omitempty" crd:"yes"`
	// Timeout bounds one run. Default: 30m.
	Timeout config.Duration `json:"timeout,omitempty" crd:"yes"`
	// Steps are the steps; each runs when those in its dependsOn are done.
	Steps []step `json:"steps" crd:"yes" max:"100"`
	// Output is the result. Default: that of the last step.
	Output *output `json:"output,omitempty" crd:"yes"`
	// Annotations are hints about the tool.
	Annotations *config.Annotations `json:"annotations,omitempty" crd:"yes"`
}

// step is one step of a Workflow.
type step struct {
	// ID names the step.
	ID string `json:"id" crd:"yes"`
	// Type is the kind of step. Default: tool.
	Type string `json:"type,omitempty" enum:"tool,elicitation,forEach" crd:"yes"`
	// Tool is the tool that is called, as clients see its name.
	Tool string `json:"tool,omitempty" crd:"yes"`
	// Arguments are those of the tool; strings are templates.
	Arguments config.Raw `json:"arguments,omitempty" crd:"yes"`
	// Condition is a template; the step is skipped unless the result is true.
	Condition string `json:"condition,omitempty" crd:"yes"`
	// DependsOn are the steps that must be done before.
	DependsOn []string `json:"dependsOn,omitempty" crd:"yes" max:"100"`
	// OnError is what happens when the step fails.
	OnError *onError `json:"onError,omitempty" crd:"yes"`
	// Message is the question of an elicitation, a template.
	Message string `json:"message,omitempty" crd:"yes"`
	// Schema is the JSON Schema of the answer to an elicitation.
	Schema config.Raw `json:"schema,omitempty" crd:"yes"`
	// Timeout bounds the step. Default: 5m.
	Timeout config.Duration `json:"timeout,omitempty" crd:"yes"`
	// OnDecline is what happens when an elicitation is declined.
	OnDecline *handler `json:"onDecline,omitempty" crd:"yes"`
	// OnCancel is what happens when an elicitation is cancelled.
	OnCancel *handler `json:"onCancel,omitempty" crd:"yes"`
	// DefaultResults are used as the result of a step that was skipped or failed.
	DefaultResults config.Raw `json:"defaultResults,omitempty" crd:"yes"`
	// Collection is a template that renders the list of a forEach.
	Collection string `json:"collection,omitempty" crd:"yes"`
	// ItemVar is the name of the current element in templates of a forEach. Default: item.
	ItemVar string `json:"itemVar,omitempty" crd:"yes"`
	// MaxParallel is how many elements a forEach processes at once. Default: 10.
	MaxParallel int `json:"maxParallel,omitempty" crd:"yes"`
	// MaxIterations is the maximum number of elements of a forEach. Default: 100.
	MaxIterations int `json:"maxIterations,omitempty" crd:"yes"`
	// Step is the step that a forEach runs for each element.
	Step config.Raw `json:"step,omitempty" crd:"yes"`
}

// onError is what happens when a step fails.
type onError struct {
	// Action is what is done. Default: abort.
	Action string `json:"action,omitempty" enum:"abort,continue,retry" crd:"yes"`
	// RetryCount is the maximum number of retries.
	RetryCount int `json:"retryCount,omitempty" crd:"yes"`
	// RetryDelay is the delay before a retry. Default: 1s.
	RetryDelay config.Duration `json:"retryDelay,omitempty" crd:"yes"`
}

// handler is what happens when an elicitation is declined or cancelled.
type handler struct {
	// Action is what is done. Default: abort.
	Action string `json:"action,omitempty" enum:"skip_remaining,abort,continue" crd:"yes"`
}

// output is the result of a Workflow.
type output struct {
	// Properties are the fields of the result.
	Properties map[string]property `json:"properties" crd:"yes" max:"100"`
	// Required are the fields that must be present.
	Required []string `json:"required,omitempty" crd:"yes" max:"100"`
}

// property is a field of the result of a Workflow.
type property struct {
	// Type is the type of the field.
	Type string `json:"type" enum:"string,integer,number,boolean,object,array" crd:"yes"`
	// Description is the description of the field for the model.
	Description string `json:"description,omitempty" crd:"yes"`
	// Value is a template that renders the value.
	Value string `json:"value,omitempty" crd:"yes"`
	// Properties are the fields of an object, each a property itself.
	Properties config.Raw `json:"properties,omitempty" crd:"yes"`
	// Default is used if the value is missing.
	Default anything `json:"default,omitzero" crd:"yes"`
}
