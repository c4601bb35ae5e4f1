package wire

import "slices"

// Protocol revisions.
const (
	rev2024 = "2024-11-05"
	Rev2503 = "2025-03-26"
	Rev2506 = "2025-06-18"
	Rev2511 = "2025-11-25"
	Rev2607 = "2026-07-28"
)

// Legacy lists the revisions with an initialize handshake, newest first.
var Legacy = []string{Rev2511, Rev2506, Rev2503, rev2024}

// Supported lists every revision, newest first.
var Supported = []string{Rev2607, Rev2511, Rev2506, Rev2503, rev2024}

// IsModern reports whether rev is stateless: 2026-07-28 or later.
func IsModern(rev string) bool { return rev >= Rev2607 }

// IsSupported reports whether this program supports rev.
func IsSupported(rev string) bool {
	for _, s := range Supported {
		if s == rev {
			return true
		}
	}
	return false
}

// Methods and notifications.
const (
	Initialize     = "initialize"
	Initialized    = "notifications/initialized"
	Discover       = "server/discover"
	Ping           = "ping"
	ToolsList      = "tools/list"
	ToolsCall      = "tools/call"
	PromptsList    = "prompts/list"
	PromptsGet     = "prompts/get"
	ResourcesList  = "resources/list"
	TemplatesList  = "resources/templates/list"
	ResourcesRead  = "resources/read"
	Subscribe      = "resources/subscribe"
	Unsubscribe    = "resources/unsubscribe"
	Listen         = "subscriptions/listen"
	Complete       = "completion/complete"
	SetLevel       = "logging/setLevel"
	TasksGet       = "tasks/get"
	TasksUpdate    = "tasks/update"
	TasksCancel    = "tasks/cancel"
	TasksResult    = "tasks/result"
	TasksList      = "tasks/list"
	Elicit         = "elicitation/create"
	CreateMessage  = "sampling/createMessage"
	RootsList      = "roots/list"
	Cancelled      = "notifications/cancelled"
	Progress       = "notifications/progress"
	LogMessage     = "notifications/message"
	ToolsChanged   = "notifications/tools/list_changed"
	PromptsChanged = "notifications/prompts/list_changed"
	ResChanged     = "notifications/resources/list_changed"
	ResUpdated     = "notifications/resources/updated"
	RootsChanged   = "notifications/roots/list_changed"
	ElicitComplete = "notifications/elicitation/complete"
	Acknowledged   = "notifications/subscriptions/acknowledged"
)

// Error codes of JSON-RPC and of MCP.
const (
	ParseError     = -32700
	InvalidRequest = -32600
	MethodNotFound = -32601
	InvalidParams  = -32602
	Denied         = 403 // ToolHive's, as the next one: it lies outside of what JSON-RPC and MCP keep for themselves
	TooMany        = 429
	InternalError  = -32603

	Busy               = -32000 // ours: no room now, try again
	ResourceNotFound   = -32002 // before 2026-07-28; InvalidParams since
	HeaderMismatch     = -32020
	MissingCapability  = -32021
	UnsupportedVersion = -32022
	urlElicitation     = -32042 // 2025-11-25 only
	// RequestCancelled is the error of this proxy for a request that its caller has cancelled.
	RequestCancelled = -32800
)

// DataRetryAfter is the member of a TooMany error's data with the time to wait, in seconds.
const DataRetryAfter = "retryAfterSeconds"

// Reserved _meta keys of 2026-07-28.
const (
	MetaPrefix             = "io.modelcontextprotocol/"
	MetaProtocolVersion    = MetaPrefix + "protocolVersion"
	MetaClientInfo         = MetaPrefix + "clientInfo"
	MetaClientCapabilities = MetaPrefix + "clientCapabilities"
	MetaLogLevel           = MetaPrefix + "logLevel"
	MetaServerInfo         = MetaPrefix + "serverInfo"
	MetaSubscriptionID     = MetaPrefix + "subscriptionId"
)

// HTTP headers.
const (
	HeaderSession     = "Mcp-Session-Id"
	HeaderVersion     = "Mcp-Protocol-Version"
	HeaderMethod      = "Mcp-Method"
	HeaderName        = "Mcp-Name"
	HeaderParamPrefix = "Mcp-Param-"
	HeaderLastEvent   = "Last-Event-Id"
)

// LogLevels are the levels of MCP (those of RFC 5424), least severe first.
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// Severity returns the index of a level in LogLevels; -1 for an invalid one.
func Severity(level string) int { return slices.Index(LogLevels, level) }
