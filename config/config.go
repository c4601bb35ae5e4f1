// Package config defines the configuration: the types that YAML is decoded into and that
// every other package uses, a strict parser that reports every problem with its
// file, line and column, and the defaults.
//
//	cfg, err := config.Load("vmcp.yaml")
//	var problems diag.Problems
//	errors.As(err, &problems) // vmcp.yaml:14:7: error: scriptedTools[2].scriptFile: no such file "deploy.star" [config]
//
// The names follow ToolHive's Virtual MCP Server configuration where the concept is
// the same. Types carry JSON tags only and hold no interfaces, so that the same
// structs can be the spec of a Kubernetes resource. A field without omitempty is
// required; the tags enum and default define its values and its default, and the
// parser, the JSON Schema and the reference page all read them.
package config

import (
	"github.com/vmcp-dev/vmcp/config/internal/document"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/limits"
)

//go:generate go test . -run TestGenerated -update

// Config is one vmcp.yaml.
type Config struct {
	// Name is the server name shown to clients.
	Name string `json:"name,omitempty" default:"vmcp" crd:"yes"`
	// Listen is the address of the HTTP endpoint, host:port. An empty host means all interfaces; an IPv6 address is written in brackets. ${NAME} is replaced from the environment, $${ stays ${.
	Listen string `json:"listen,omitempty" default:"127.0.0.1:4483" crd:"no"`
	// Hosts are the accepted values of the Host header: mcp.example.com, or *.example.com for its subdomains. The port is compared only if one is given. Loopback names need not be listed if the endpoint listens on a loopback address. On other addresses every name is accepted if the list is empty.
	Hosts []string `json:"hosts,omitempty" crd:"no"`
	// Origins are the accepted values of the Origin header, which browsers send: https://app.example.com; "*" accepts all. Origins on this machine need not be listed if the endpoint listens on a loopback address, nor origins whose host is one of hosts.
	Origins []string `json:"origins,omitempty" crd:"no"`
	// TrustedProxies are networks, such as 10.0.0.0/8, and addresses of reverse proxies whose X-Forwarded-For is trusted: limits per address use the client address in it. If the list is empty nothing is limited per address, because all clients may share one proxy.
	TrustedProxies []string `json:"trustedProxies,omitempty" crd:"no"`
	// ClientSessions bound the sessions of clients over HTTP.
	ClientSessions ClientSessions `json:"clientSessions,omitempty" crd:"no"`
	// MaxRequestBody is the size of one request of a client over HTTP.
	MaxRequestBody Bytes `json:"maxRequestBody,omitempty" default:"4MB" crd:"no"`
	// Admin is a separate port for operators.
	Admin Admin `json:"admin,omitempty" crd:"no"`
	// Discovery is a file with the URL of the endpoint, present while it is served.
	Discovery Discovery `json:"discovery,omitempty" crd:"no"`
	// TLS is the certificate that the endpoint is served with.
	TLS TLS `json:"tls,omitempty" crd:"no"`
	// IncomingAuth is how clients authenticate and what they may do.
	IncomingAuth IncomingAuth `json:"incomingAuth,omitempty" crd:"no"`
	// OutgoingAuth is with which credentials backends are called.
	OutgoingAuth OutgoingAuth `json:"outgoingAuth,omitempty" crd:"yes"`
	// TokenStore is where the tokens of logins at backends are stored.
	TokenStore TokenStore `json:"tokenStore,omitempty" crd:"no"`
	// PassthroughHeaders are headers of clients' requests that are forwarded to backends with a URL, such as X-Request-Id. Credentials and headers of the protocol cannot be forwarded.
	PassthroughHeaders []string `json:"passthroughHeaders,omitempty" crd:"yes"`
	// Audit is the audit log.
	Audit Audit `json:"audit,omitempty" crd:"no"`
	// Pins compare the backends with definitions that were reviewed.
	Pins Pins `json:"pins,omitempty" crd:"no"`
	// Recording records calls of scripted tools as test cases.
	Recording Recording `json:"recording,omitempty" crd:"no"`
	// Telemetry is what metrics contain, and where metrics and traces are sent.
	Telemetry Telemetry `json:"telemetry,omitempty" crd:"no"`
	// Introspection offers the state of the endpoint as resources to its clients.
	Introspection Introspection `json:"introspection,omitempty" crd:"yes"`
	// Check sets the severity of the problems that checks of scripts find.
	Check Check `json:"check,omitempty" crd:"no"`
	// RateLimiting bounds how often tools are called.
	RateLimiting RateLimiting `json:"rateLimiting,omitempty" crd:"yes"`
	// Backends are the MCP servers behind the endpoint.
	Backends []Backend `json:"backends,omitempty" crd:"no"`
	// Aggregation is how the backends' tools are combined into one list.
	Aggregation Aggregation `json:"aggregation,omitempty" crd:"yes"`
	// Profiles are subsets of what the endpoint offers, each served at its own path.
	Profiles []Profile `json:"profiles,omitempty" crd:"yes" max:"64"`
	// ScriptedTools are workflows written in Starlark, listed as ordinary tools.
	ScriptedTools []ScriptedTool `json:"scriptedTools,omitempty" crd:"yes"`
	// Scripts are folders, relative to the configuration file, whose .star files are scripted tools.
	Scripts []string `json:"scripts,omitempty" crd:"no"`
	// Libraries are modules that scripts can load.
	Libraries []Library `json:"libraries,omitempty" crd:"yes"`
	// ScriptedToolRefs are objects of kind VirtualMCPScriptedToolDefinition by their names.
	ScriptedToolRefs []NameRef `json:"scriptedToolRefs,omitempty" config:"-" crd:"yes" max:"1000"`
	// CompositeTools are workflows in ToolHive's legacy YAML format.
	CompositeTools []CompositeTool `json:"compositeTools,omitempty" crd:"yes"`
	// CompositeToolRefs are objects of kind VirtualMCPCompositeToolDefinition by their names.
	CompositeToolRefs []NameRef `json:"compositeToolRefs,omitempty" config:"-" crd:"yes" max:"1000"`
	// SessionIdle is how long unused sessions are kept.
	SessionIdle SessionIdle `json:"sessionIdle,omitempty" crd:"yes"`
	// SessionStorage is where runs of scripted tools are stored.
	SessionStorage SessionStorage `json:"sessionStorage,omitempty" crd:"no"`
	// Cluster makes several processes over one PostgreSQL serve as one endpoint.
	Cluster Cluster `json:"cluster,omitempty" crd:"no"`
	// Runs is how runs of scripted tools survive the end of a request, a connection and the process.
	Runs Runs `json:"runs,omitempty" crd:"no"`
	// Limits bound every run of a script, and all runs together.
	Limits Limits `json:"limits,omitempty" crd:"yes"`
	// Operational has timeouts and failure handling.
	Operational Operational `json:"operational,omitempty" crd:"yes"`

	expanded []string // the values of variables in headers and environments
	warnings diag.Problems
	places   map[string]diag.Pos // of the values in the file, by path
	origins  map[string]diag.Origin
	problems diag.Problems     // of the file: some of it may be missing
	envFiles []string          // that variables come from
	ruleless bool              // callers are authenticated, and there is no authz
	written  []byte            // the content of the file, as JSON
	named    map[string]string // the names of variables by their values
}

// Profile is a part of what the endpoint offers, under the same names, served at /mcp/NAME and by vmcp serve --stdio --profile NAME. It is no security boundary: scripts reach everything, and authorization policies decide what a caller may do.
type Profile struct {
	// Name is the last part of the path.
	Name string `json:"name" crd:"yes" max:"63"`
	// Description describes the profile.
	Description string `json:"description,omitempty" crd:"yes"`
	// Workloads are the backends whose tools, prompts and resources belong to it, by name. Default: all, and the scripted tools.
	Workloads []string `json:"workloads,omitempty" crd:"yes" max:"1000"`
	// Tools are globs over the names that clients see; a glob with ! in front excludes. The last glob that matches a name decides, and a list that begins with ! starts from all tools. Default: all. If workloads are listed, scripted tools belong to the profile only if a glob other than * matches them.
	Tools []string `json:"tools,omitempty" crd:"yes" max:"1000"`
	// MaxTools is the number of tools that its clients can handle. More are served, with a warning.
	MaxTools int `json:"maxTools,omitempty" crd:"yes"`
}

// ClientSessions bound the sessions of clients over HTTP. When a limit is reached, sessions that were never used are ended first, then the one that has been idle longest; while all are in use, a new one is refused with 503 and Retry-After.
type ClientSessions struct {
	// Max is the number of sessions in total.
	Max int `json:"max,omitempty" default:"10000"`
	// PerPrincipal is the number of sessions of one authenticated principal.
	PerPrincipal int `json:"perPrincipal,omitempty" default:"1000"`
	// PerAddress is the number of sessions of one client address, with IPv6 of one /64 network. It applies only if trustedProxies are listed, and not to loopback addresses.
	PerAddress int `json:"perAddress,omitempty" default:"1000"`
}

// Admin is a port for metrics and details, separate from the one for clients.
type Admin struct {
	// Listen is the address of the port, host:port. It serves the page and the API for operators, /metrics and /readyz with details; the endpoint's port then does not. If unset, the endpoint's port serves them, to loopback addresses only. ${NAME} is replaced from the environment, $${ stays ${.
	Listen string `json:"listen,omitempty"`
	// TokenFile is a file, relative to the configuration file, with the bearer token that the port requires. An address that is not loopback requires it, or the token of a principal who is an admin. The file is reloaded when it changes.
	TokenFile string `json:"tokenFile,omitempty"`
	// Page serves a web page with backends, tools, runs and problems. false: only the API below /api/v1 is served.
	Page *bool `json:"page,omitempty" default:"true"`
	// TryTools lets operators call tools and answer questions of runs.
	TryTools *bool `json:"tryTools,omitempty" default:"true"`
	// KeepValues keeps and shows the arguments and results of the last runs and of their steps. If false, only the steps and their times are shown.
	KeepValues bool `json:"keepValues,omitempty"`
}

// HasPage is Page or its default.
func (a *Admin) HasPage() bool { return a.Page == nil || *a.Page }

// CanTry is TryTools or its default.
func (a *Admin) CanTry() bool { return a.TryTools == nil || *a.TryTools }

// NoDiscovery is the value of discovery.file that writes no file.
const NoDiscovery = "none"

// Discovery is how programs on this machine find the endpoint.
type Discovery struct {
	// File is written once the port is open, with the endpoint's URL, the process ID and the path of the token file, and removed at shutdown. Relative to the configuration file. Default: ~/.vmcp/server.json, unless another running server uses it. none: no file is written.
	File string `json:"file,omitempty"`
}

// Backend is one MCP server behind the endpoint: a URL, or a command to start.
type Backend struct {
	// Name identifies the backend; with the prefix strategy it becomes part of tool names.
	Name string `json:"name"`
	// URL is a Streamable HTTP or SSE endpoint. Exclusive with command. ${NAME} and ${NAME:-default} are replaced from the environment, as in command, args, cwd, env and headers; $${ stays ${.
	URL string `json:"url,omitempty"`
	// Transport is the MCP transport. Default: stdio with a command, else streamable-http, with sse as the fallback for servers that support only that.
	Transport string `json:"transport,omitempty" enum:"stdio,streamable-http,sse"`
	// Prefix is put before the names of the backend's tools and prompts, under every strategy; "" is no prefix. Default: as the conflict strategy sets it.
	Prefix *string `json:"prefix,omitempty"`
	// Disabled keeps the entry without starting the backend. Variables that it needs may be missing.
	Disabled bool `json:"disabled,omitempty"`
	// Type is the kind of workload in ToolHive's terms; an entry is a server reached directly at its URL, as every one here is.
	Type string `json:"type,omitempty" enum:"entry"`
	// Command is the program of a stdio backend, started without a shell. A name with a slash is relative to the configuration file.
	Command string `json:"command,omitempty"`
	// Args are the command's arguments; no shell reads them. ${NAME} and ${NAME:-default} are replaced from the proxy's environment, $${ stays ${.
	Args []string `json:"args,omitempty"`
	// Env is the child's environment beyond PATH, HOME and the like. ${NAME} is replaced from the proxy's environment, ${NAME:-default} by the default if the variable is unset or empty, $${ stays ${.
	Env map[string]string `json:"env,omitempty"`
	// Cwd is the working directory of a stdio backend, relative to the configuration file.
	Cwd string `json:"cwd,omitempty"`
	// Headers are sent with every HTTP request. ${NAME} and ${NAME:-default} are replaced from the environment, $${ stays ${.
	Headers map[string]string `json:"headers,omitempty"`
	// IdempotencyHeader is a header, such as Idempotency-Key, that additionally carries the idempotency key of a call that a script may repeat. The member dev.vmcp/idempotencyKey of _meta always carries it.
	IdempotencyHeader string `json:"idempotencyHeader,omitempty"`
	// TLS configures connections to an https:// URL.
	TLS BackendTLS `json:"tls,omitempty"`
	// PassPrincipal sends a stdio backend the issuer and subject of the caller, in the member dev.vmcp/principal of _meta. It is no credential.
	PassPrincipal bool `json:"passPrincipal,omitempty"`
	// Outgoing is how requests to the backend are authenticated; nil: they are not. Complete takes it from outgoingAuth.
	Outgoing *OutgoingStrategy `json:"-"`
	// Unusable is why a server of a client's configuration cannot be reached: the backend is down.
	Unusable string `json:"-"`
	// Timeout bounds one call. Default: operational.timeouts.
	Timeout Duration `json:"timeout,omitempty"`
	// Sessions is which clients share a session with this backend. auto: each client session has its own if the backend issues session ids; a stdio backend is shared by clients without sampling, elicitation and roots. exclusive: each has its own. shared: all share one.
	Sessions string `json:"sessions,omitempty" enum:"auto,shared,exclusive" default:"auto"`
	// MaxConnections bounds the connections to this backend: child processes, and over HTTP the streams for messages that belong to no call.
	MaxConnections int `json:"maxConnections,omitempty" default:"64"`
	// MaxSessions bounds the sessions with this backend that belong to one client each. Default: the number of client sessions.
	MaxSessions int `json:"maxSessions,omitempty"`
}

// SessionIdle is how long unused sessions are kept.
type SessionIdle struct {
	// Client is for a client's session over HTTP, without a running request or an open stream.
	Client Duration `json:"client,omitempty" default:"1h" crd:"yes"`
	// Backend is for the sessions and child processes that backends have for one client each. 0s: until the client's session ends. With a shorter time, a client that is still connected loses the state of its backend session.
	Backend Duration `json:"backend,omitempty" default:"0s" crd:"yes"`
	// Pressure is how long a client's session must have been unused to be ended for another client when connections or sessions have run out.
	Pressure Duration `json:"pressure,omitempty" default:"1m" crd:"yes"`
}

// Aggregation is how the backends' entries are combined into one catalog.
type Aggregation struct {
	// ConflictResolution is what happens when two backends have a tool of the same name.
	ConflictResolution string `json:"conflictResolution,omitempty" enum:"prefix,priority,manual" default:"prefix" crd:"yes"`
	// ConflictResolutionConfig parametrises the conflict strategy.
	ConflictResolutionConfig ConflictResolutionConfig `json:"conflictResolutionConfig,omitempty" crd:"yes"`
	// Tools are rules per backend.
	Tools []WorkloadTools `json:"tools,omitempty" crd:"yes"`
	// Prompts are rules per backend for its prompts.
	Prompts []WorkloadPrompts `json:"prompts,omitempty" crd:"yes"`
	// Resources are rules per backend for its resources and resource templates.
	Resources []WorkloadResources `json:"resources,omitempty" crd:"yes"`
	// ExcludeAllTools hides every backend tool from clients; scripts still call them.
	ExcludeAllTools bool `json:"excludeAllTools,omitempty" crd:"yes"`
	// DefaultToolVisibility is what a backend without a rule of its own gets. Scripts call hidden tools, too.
	DefaultToolVisibility string `json:"defaultToolVisibility,omitempty" enum:"visible,hidden" default:"visible" crd:"yes"`
}

// ConflictResolutionConfig parametrises the conflict strategies.
type ConflictResolutionConfig struct {
	// PrefixFormat builds the prefix; {workload} is the backend's name. Default: {workload}_, and no prefix while there is a single backend.
	PrefixFormat string `json:"prefixFormat,omitempty" crd:"yes"`
	// PriorityOrder lists backends, first wins, for the priority strategy.
	PriorityOrder []string `json:"priorityOrder,omitempty" crd:"yes"`
}

// WorkloadTools are the rules for one backend's entries.
type WorkloadTools struct {
	// Workload is the name of the backend.
	Workload string `json:"workload" crd:"yes"`
	// Filter keeps the tools whose name at the backend matches one of the globs. A glob that begins with ! excludes tools; if all globs do, the remaining tools are kept.
	Filter []string `json:"filter,omitempty" crd:"yes"`
	// Overrides replace names and descriptions of tools, keyed by their name at the backend.
	Overrides map[string]ToolOverride `json:"overrides,omitempty" crd:"yes"`
	// ExcludeAll hides all tools of this backend from clients.
	ExcludeAll bool `json:"excludeAll,omitempty" crd:"yes"`
}

// WorkloadPrompts are the rules for one backend's prompts.
type WorkloadPrompts struct {
	// Workload is the name of the backend.
	Workload string `json:"workload" crd:"yes"`
	// Filter keeps the prompts whose name at the backend, or overridden name, matches one of the globs; !glob excludes, as for tools.
	Filter []string `json:"filter,omitempty" crd:"yes"`
	// Overrides replace names and descriptions of prompts, keyed by their name at the backend.
	Overrides map[string]PromptOverride `json:"overrides,omitempty" crd:"yes"`
	// ExcludeAll hides all prompts of this backend.
	ExcludeAll bool `json:"excludeAll,omitempty" crd:"yes"`
}

// PromptOverride replaces parts of a prompt's definition.
type PromptOverride struct {
	// Name replaces the prompt's name at the backend, before the conflict strategy is applied.
	Name string `json:"name,omitempty" crd:"yes"`
	// Description replaces the description.
	Description string `json:"description,omitempty" crd:"yes"`
}

// WorkloadResources are the rules for one backend's resources and resource templates.
type WorkloadResources struct {
	// Workload is the name of the backend.
	Workload string `json:"workload" crd:"yes"`
	// Filter keeps the resources whose URI, and the templates whose URI template, matches
	// one of the globs. In a glob, * matches any characters except a slash.
	Filter []string `json:"filter,omitempty" crd:"yes"`
	// Overrides replace names and descriptions of resources, keyed by the backend's URI or URI template.
	Overrides map[string]ResourceOverride `json:"overrides,omitempty" crd:"yes"`
	// AllowAnyScheme accepts resource templates that begin with a variable, such as {+any}. They match URIs of other
	// backends, too, unless these list them or have a more specific template. With a single backend they are always accepted.
	AllowAnyScheme bool `json:"allowAnyScheme,omitempty" crd:"yes"`
	// ExcludeAll hides all resources of this backend.
	ExcludeAll bool `json:"excludeAll,omitempty" crd:"yes"`
}

// ResourceOverride replaces parts of a resource's definition.
type ResourceOverride struct {
	// Name replaces the name that is shown; it does not identify the resource.
	Name string `json:"name,omitempty" crd:"yes"`
	// Description replaces the description.
	Description string `json:"description,omitempty" crd:"yes"`
}

// ToolOverride replaces parts of a tool's definition.
type ToolOverride struct {
	// Name is what clients see instead of the name at the backend.
	Name string `json:"name,omitempty" crd:"yes"`
	// Description replaces the backend's description.
	Description string `json:"description,omitempty" crd:"yes"`
	// Annotations replace the backend's hints one by one.
	Annotations *Annotations `json:"annotations,omitempty" crd:"yes"`
	// Repeatable is whether a script's call may be made again when its outcome is unknown. It overrides every hint.
	Repeatable *bool `json:"repeatable,omitempty" crd:"yes"`
}

// Annotations are the tool hints of the MCP specification (ToolAnnotations).
type Annotations struct {
	// Title is the name for people.
	Title *string `json:"title,omitempty" crd:"yes"`
	// ReadOnlyHint says that the tool changes nothing.
	ReadOnlyHint *bool `json:"readOnlyHint,omitempty" crd:"yes"`
	// DestructiveHint says that the tool may destroy something.
	DestructiveHint *bool `json:"destructiveHint,omitempty" crd:"yes"`
	// IdempotentHint says that a second call with the same arguments changes nothing more.
	IdempotentHint *bool `json:"idempotentHint,omitempty" crd:"yes"`
	// OpenWorldHint says that the tool reaches beyond its own system.
	OpenWorldHint *bool `json:"openWorldHint,omitempty" crd:"yes"`
}

// ScriptedTool is a workflow in Starlark that clients see as a tool.
type ScriptedTool struct {
	// Name is what clients call.
	Name string `json:"name" crd:"yes"`
	// Title is the name for people.
	Title string `json:"title,omitempty" crd:"yes"`
	// Description tells the model what the tool does and when to use it.
	Description string `json:"description" crd:"yes"`
	// Parameters is the JSON Schema (2020-12) of the arguments. Default: an object without properties.
	Parameters Raw `json:"parameters,omitempty" crd:"yes"`
	// Output is the JSON Schema (2020-12) of the returned value.
	Output Raw `json:"output,omitempty" crd:"yes"`
	// Timeout bounds one run; short for limits.time.
	Timeout Duration `json:"timeout,omitempty" crd:"yes"`
	// Script is the source; exactly one of script and scriptFile is set.
	Script string `json:"script,omitempty" crd:"yes"`
	// ScriptFile is the file of the source, relative to the configuration file. After Parse it is absolute.
	ScriptFile string `json:"scriptFile,omitempty" crd:"no"`
	// Entry is the function of the script that a call of the tool runs, so that one file can define several tools. Default: run.
	Entry string `json:"entry,omitempty" crd:"yes"`
	// ScriptFrom names the ConfigMap with the source, in an object of Kubernetes; exactly one of script and scriptFrom is set.
	ScriptFrom *TextSource `json:"scriptFrom,omitempty" config:"-" crd:"yes"`
	// Bundle is the ConfigMap that the script comes from; load looks for its other keys before libraries. nil: none.
	Bundle *Bundle `json:"-"`
	// Annotations override the hints derived from the tools that the script calls.
	Annotations *Annotations `json:"annotations,omitempty" crd:"yes"`
	// TrustAnnotations allows annotations that promise more than those of the tools that the script can call.
	TrustAnnotations bool `json:"trustAnnotations,omitempty" crd:"yes"`
	// Isolated runs the script in separate worker processes, which share neither memory nor open files with the server, for untrusted authors. Linux only. vmcp serve --isolate-scripts does it for all scripts.
	Isolated bool `json:"isolated,omitempty" crd:"yes"`
	// Durable is which runs of the tool are stored. Default: runs.durable.
	Durable string `json:"durable,omitempty" enum:"auto,always,never" crd:"yes"`
	// OnDoubt is what happens to a run when it is unknown whether a call was made. Default: runs.onDoubt.
	OnDoubt string `json:"onDoubt,omitempty" enum:"auto,wait,fail" crd:"yes"`
	// OnDisconnect is what happens to a run whose client disconnects before its end. Default: runs.onDisconnect.
	OnDisconnect string `json:"onDisconnect,omitempty" enum:"auto,cancel,pause,continue" crd:"yes"`
	// Limits override the general limits for this tool. After Parse all of its fields are set.
	Limits *limits.Run `json:"limits,omitempty" crd:"yes"`
}

// Library is Starlark code that scripts can load: a folder, or one inline module.
type Library struct {
	// Name is what scripts load when the library is inline, such as helpers.star.
	Name string `json:"name,omitempty" crd:"yes"`
	// Source is the source of an inline library.
	Source string `json:"source,omitempty" crd:"yes"`
	// Path is a folder of .star files, relative to the configuration file.
	Path string `json:"path,omitempty" crd:"no"`
	// SourceFrom names the ConfigMap with the source, in an object of Kubernetes; exactly one of source and sourceFrom is set.
	SourceFrom *TextSource `json:"sourceFrom,omitempty" config:"-" crd:"yes"`
}

// CompositeTool is one workflow in ToolHive's legacy format. Package migrate
// parses it; here only its name is read.
type CompositeTool = document.Definition

// Limits bound the runs of scripts: each one, where a tool's own limits override the general
// ones, and all together.
type Limits struct {
	limits.Run
	// Runs is the number of runs in memory at once, including those that wait for a tool, excluding suspended ones.
	Runs int `json:"runs,omitempty" default:"100" crd:"no"`
	// RunsPerPrincipal is the number of runs at once for one client.
	RunsPerPrincipal int `json:"runsPerPrincipal,omitempty" default:"20" crd:"yes"`
	// TotalMemory is the amount of memory that all runs together may allocate.
	TotalMemory Bytes `json:"totalMemory,omitempty" default:"2GB" crd:"no"`
}

// Operational has timeouts and failure handling.
type Operational struct {
	// Timeouts bound calls to backends.
	Timeouts Timeouts `json:"timeouts,omitempty" crd:"yes"`
	// FailureHandling is when a backend is considered down.
	FailureHandling FailureHandling `json:"failureHandling,omitempty" crd:"yes"`
	// Startup is how long requests wait while backends connect for the first time.
	Startup Startup `json:"startup,omitempty" crd:"no"`
	// Shutdown is how the process drains after SIGINT or SIGTERM.
	Shutdown Shutdown `json:"shutdown,omitempty" crd:"no"`
}

// Startup is how long requests wait while backends connect for the first time.
type Startup struct {
	// Wait is how long, after the start of the process, lists, /readyz and calls of tools that are not listed yet wait for backends that are still connecting. They never wait for a backend that is down.
	Wait Duration `json:"wait,omitempty" default:"5s"`
}

// Shutdown is how the process drains after SIGINT or SIGTERM.
type Shutdown struct {
	// Delay is how long requests are still served while /readyz answers 503 and every response closes its connection, so that a load balancer can remove this process.
	Delay Duration `json:"delay,omitempty" default:"0s"`
	// DrainTime is how long pending calls may take after that, when the port is closed.
	DrainTime Duration `json:"drainTime,omitempty" default:"10s"`
}

// Timeouts bound calls to backends.
type Timeouts struct {
	// Default bounds one call.
	Default Duration `json:"default,omitempty" default:"30s" crd:"yes"`
	// PerWorkload overrides default by backend name.
	PerWorkload map[string]Duration `json:"perWorkload,omitempty" crd:"yes"`
}

// FailureHandling is when a backend is considered down.
type FailureHandling struct {
	// HealthCheckInterval is the time between pings of an idle backend.
	HealthCheckInterval Duration `json:"healthCheckInterval,omitempty" default:"30s" crd:"yes"`
	// UnhealthyThreshold is the number of failed checks in a row after which a backend is down.
	UnhealthyThreshold int `json:"unhealthyThreshold,omitempty" default:"3" crd:"yes"`
	// CircuitBreaker rejects calls to a backend after repeated failures.
	CircuitBreaker *CircuitBreaker `json:"circuitBreaker,omitempty" crd:"yes"`
}

// CircuitBreaker opens after a number of failures in a row; after timeout one call is let through as a trial.
type CircuitBreaker struct {
	// Enabled enables the circuit breaker.
	Enabled bool `json:"enabled,omitempty" crd:"yes"`
	// FailureThreshold is the number of failures in a row that open it.
	FailureThreshold int `json:"failureThreshold,omitempty" default:"5" crd:"yes"`
	// Timeout is how long it stays open before the trial call.
	Timeout Duration `json:"timeout,omitempty" default:"60s" crd:"yes"`
}
