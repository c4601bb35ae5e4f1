package crd

import "github.com/vmcp-dev/vmcp/config"

// anything is JSON of any type.
type anything struct{}

// Workflow is the schema of a VirtualMCPCompositeToolDefinition and of the compositeTools of a server: ToolHive's
// format. What stands in it is looked at where it is compiled.
type Workflow struct {
	// Name is what clients call.
	Name string `json:"name" crd:"yes" max:"64"`
	// Description tells the model what the tool does.
	Description string `json:"description" crd:"yes"`
	// Parameters is the JSON Schema of the arguments.
	Parameters config.Raw `json:"parameters,omitempty" crd:"yes"`
	// Timeout bounds one run. Without it: 30m.
	Timeout config.Duration `json:"timeout,omitempty" crd:"yes"`
	// Steps are what is done, each when those before it are done that it names.
	Steps []Step `json:"steps" crd:"yes" max:"100"`
	// Output is the result. Without it: that of the last step.
	Output *Output `json:"output,omitempty" crd:"yes"`
	// Annotations are hints about the tool.
	Annotations *config.Annotations `json:"annotations,omitempty" crd:"yes"`
}

// Step is one step of a Workflow.
type Step struct {
	// ID names the step.
	ID string `json:"id" crd:"yes"`
	// Type is the kind of step. Without it: tool.
	Type string `json:"type,omitempty" enum:"tool,elicitation,forEach" crd:"yes"`
	// Tool is the tool that is called, as clients see its name.
	Tool string `json:"tool,omitempty" crd:"yes"`
	// Arguments are those of the tool; texts are templates.
	Arguments config.Raw `json:"arguments,omitempty" crd:"yes"`
	// Condition is a template; the step is skipped unless it gives true.
	Condition string `json:"condition,omitempty" crd:"yes"`
	// DependsOn are the steps that have to be done before.
	DependsOn []string `json:"dependsOn,omitempty" crd:"yes" max:"100"`
	// OnError says what happens when the step fails.
	OnError *OnError `json:"onError,omitempty" crd:"yes"`
	// Message is the question of an elicitation, a template.
	Message string `json:"message,omitempty" crd:"yes"`
	// Schema is the JSON Schema of the answer to an elicitation.
	Schema config.Raw `json:"schema,omitempty" crd:"yes"`
	// Timeout bounds the step. Without it: 5m.
	Timeout config.Duration `json:"timeout,omitempty" crd:"yes"`
	// OnDecline says what happens when an elicitation is declined.
	OnDecline *Handler `json:"onDecline,omitempty" crd:"yes"`
	// OnCancel says what happens when an elicitation is cancelled.
	OnCancel *Handler `json:"onCancel,omitempty" crd:"yes"`
	// DefaultResults stand for the result of a step that was skipped or failed.
	DefaultResults config.Raw `json:"defaultResults,omitempty" crd:"yes"`
	// Collection is a template of the list of a forEach.
	Collection string `json:"collection,omitempty" crd:"yes"`
	// ItemVar is what templates of a forEach call one element. Without it: item.
	ItemVar string `json:"itemVar,omitempty" crd:"yes"`
	// MaxParallel is how many elements a forEach works on at once. Without it: 10.
	MaxParallel int `json:"maxParallel,omitempty" crd:"yes"`
	// MaxIterations is how many elements a forEach takes. Without it: 100.
	MaxIterations int `json:"maxIterations,omitempty" crd:"yes"`
	// Step is what a forEach does for each element, a step itself.
	Step config.Raw `json:"step,omitempty" crd:"yes"`
}

// OnError says what happens when a step fails.
type OnError struct {
	// Action is what is done. Without it: abort.
	Action string `json:"action,omitempty" enum:"abort,continue,retry" crd:"yes"`
	// RetryCount is how often the step is tried again.
	RetryCount int `json:"retryCount,omitempty" crd:"yes"`
	// RetryDelay is how long to wait before. Without it: 1s.
	RetryDelay config.Duration `json:"retryDelay,omitempty" crd:"yes"`
}

// Handler says what happens when an elicitation is declined or cancelled.
type Handler struct {
	// Action is what is done. Without it: abort.
	Action string `json:"action,omitempty" enum:"skip_remaining,abort,continue" crd:"yes"`
}

// Output is the result of a Workflow.
type Output struct {
	// Properties are the fields of the result.
	Properties map[string]Property `json:"properties" crd:"yes" max:"100"`
	// Required are the fields that have to be there.
	Required []string `json:"required,omitempty" crd:"yes" max:"100"`
}

// Property is a field of the result of a Workflow.
type Property struct {
	// Type is the type of the field.
	Type string `json:"type" enum:"string,integer,number,boolean,object,array" crd:"yes"`
	// Description tells the model what it is.
	Description string `json:"description,omitempty" crd:"yes"`
	// Value is a template of the value.
	Value string `json:"value,omitempty" crd:"yes"`
	// Properties are the fields of an object, each a property itself.
	Properties config.Raw `json:"properties,omitempty" crd:"yes"`
	// Default stands for a value that is not there.
	Default anything `json:"default,omitzero" crd:"yes"`
}
