// Package config is the configuration as data: the types that YAML fills and that
// every other package uses, a strict parser that reports every problem with its
// file, line and column, and the defaults.
//
// The names follow ToolHive's Virtual MCP Server configuration where the concept is
// the same. Types carry JSON tags only and hold no interfaces, so that the same
// structs can be the spec of a Kubernetes resource.
package config

// Config is one vmcp.yaml.
type Config struct {
	// Name is the server name shown to clients. Default "vmcp".
	Name string `json:"name,omitempty"`
	// Listen is the address of the HTTP endpoint. Default 127.0.0.1:4483.
	Listen string `json:"listen,omitempty"`
	// Backends are the MCP servers behind the endpoint.
	Backends []Backend `json:"backends,omitempty"`
	// Aggregation says how the backends' tools become one list.
	Aggregation Aggregation `json:"aggregation,omitempty"`
	// ScriptedTools are workflows written in Starlark, listed as ordinary tools.
	ScriptedTools []ScriptedTool `json:"scriptedTools,omitempty"`
	// Operational holds timeouts and failure handling.
	Operational Operational `json:"operational,omitempty"`
}

// Backend is one MCP server behind the endpoint.
type Backend struct {
	// Name identifies the backend; with the prefix strategy it becomes part of tool names.
	Name string `json:"name"`
	// URL of a Streamable HTTP or SSE endpoint. Exclusive with Command.
	URL string `json:"url,omitempty"`
	// Transport is stdio, streamable-http or sse. Default: stdio with Command, else streamable-http.
	Transport string `json:"transport,omitempty"`
	// Command is the program of a stdio backend, started without a shell.
	Command string   `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	// Env is the child's environment beyond PATH, HOME and the like. ${NAME} expands from the proxy's environment.
	Env map[string]string `json:"env,omitempty"`
	// Cwd is the working directory of a stdio backend, relative to the configuration file.
	Cwd string `json:"cwd,omitempty"`
	// Headers are sent with every HTTP request; ${NAME} expands from the environment.
	Headers map[string]string `json:"headers,omitempty"`
	// Timeout bounds one call. Default 30s.
	Timeout Duration `json:"timeout,omitempty"`
	// Sessions is auto (default), shared or exclusive: whether clients share a connection.
	Sessions string `json:"sessions,omitempty"`
	// MaxConnections bounds the connections to this backend. Default 64.
	MaxConnections int `json:"maxConnections,omitempty"`
}

// Aggregation says how the backends' entries become one catalog.
type Aggregation struct {
	// ConflictResolution is prefix (default), priority or manual.
	ConflictResolution       string                   `json:"conflictResolution,omitempty"`
	ConflictResolutionConfig ConflictResolutionConfig `json:"conflictResolutionConfig,omitempty"`
	// Tools are rules per backend.
	Tools []WorkloadTools `json:"tools,omitempty"`
	// ExcludeAllTools hides every backend tool from clients; scripts still call them.
	ExcludeAllTools bool `json:"excludeAllTools,omitempty"`
	// DefaultToolVisibility is visible (default) or hidden: what a backend without a rule of its own gets.
	DefaultToolVisibility string `json:"defaultToolVisibility,omitempty"`
}

// ConflictResolutionConfig parametrises the conflict strategies.
type ConflictResolutionConfig struct {
	// PrefixFormat builds the prefix; {workload} is the backend's name. Default "{workload}_".
	PrefixFormat string `json:"prefixFormat,omitempty"`
	// PriorityOrder lists backends, first wins, for the priority strategy.
	PriorityOrder []string `json:"priorityOrder,omitempty"`
}

// WorkloadTools are the rules for one backend's entries.
type WorkloadTools struct {
	Workload string `json:"workload"`
	// Filter keeps the tools whose own name matches one of the globs.
	Filter []string `json:"filter,omitempty"`
	// Overrides rename and redescribe tools, keyed by the backend's own name.
	Overrides map[string]ToolOverride `json:"overrides,omitempty"`
	// ExcludeAll hides all tools of this backend from clients.
	ExcludeAll bool `json:"excludeAll,omitempty"`
}

// ToolOverride replaces parts of a tool's definition.
type ToolOverride struct {
	Name        string       `json:"name,omitempty"`
	Description string       `json:"description,omitempty"`
	Annotations *Annotations `json:"annotations,omitempty"`
}

// Annotations are the tool hints of the MCP specification (ToolAnnotations).
type Annotations struct {
	Title           *string `json:"title,omitempty"`
	ReadOnlyHint    *bool   `json:"readOnlyHint,omitempty"`
	DestructiveHint *bool   `json:"destructiveHint,omitempty"`
	IdempotentHint  *bool   `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool   `json:"openWorldHint,omitempty"`
}

// ScriptedTool is a workflow in Starlark that clients see as a tool.
type ScriptedTool struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description"`
	// Parameters is the JSON Schema of the arguments. Default: an object without properties.
	Parameters Raw `json:"parameters,omitempty"`
	// Output is the JSON Schema of the returned value.
	Output Raw `json:"output,omitempty"`
	// Timeout bounds one run. Default 30m.
	Timeout Duration `json:"timeout,omitempty"`
	// Script is the source; exactly one of Script and ScriptFile is set.
	Script string `json:"script,omitempty"`
	// ScriptFile is a path relative to the configuration file.
	ScriptFile  string       `json:"scriptFile,omitempty"`
	Annotations *Annotations `json:"annotations,omitempty"`
}

// Operational holds timeouts and failure handling.
type Operational struct {
	Timeouts        Timeouts        `json:"timeouts,omitempty"`
	FailureHandling FailureHandling `json:"failureHandling,omitempty"`
}

// Timeouts bound calls to backends.
type Timeouts struct {
	// Default bounds one call. Default 30s.
	Default Duration `json:"default,omitempty"`
	// PerWorkload overrides Default by backend name.
	PerWorkload map[string]Duration `json:"perWorkload,omitempty"`
}

// FailureHandling says when a backend counts as down.
type FailureHandling struct {
	// HealthCheckInterval is the time between pings of an idle backend. Default 30s.
	HealthCheckInterval Duration `json:"healthCheckInterval,omitempty"`
	// UnhealthyThreshold is the number of failed checks in a row after which a backend is down. Default 3.
	UnhealthyThreshold int `json:"unhealthyThreshold,omitempty"`
	// CircuitBreaker stops calls to a backend that keeps failing.
	CircuitBreaker *CircuitBreaker `json:"circuitBreaker,omitempty"`
}

// CircuitBreaker opens after a number of failures in a row and tries again after a while.
type CircuitBreaker struct {
	Enabled          bool     `json:"enabled,omitempty"`
	FailureThreshold int      `json:"failureThreshold,omitempty"` // default 5
	Timeout          Duration `json:"timeout,omitempty"`          // default 60s
}
