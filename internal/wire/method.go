package wire

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// Method is the properties of an MCP request method, or of a notification of clients.
type Method struct {
	Name   string
	Legacy bool // exists in the revisions with sessions
	Modern bool // exists in 2026-07-28
	// Call is set for methods that use an entry of a backend or a script, or a task of such a
	// call. All others concern the endpoint, its lists and subscriptions.
	Call bool
	// Member is the member of params with the name of the entry. With InHeader the
	// transport requires the same value in HeaderName.
	Member   string
	InHeader bool
	// Capability is the client capability for a request of servers to clients; "" for requests to servers.
	Capability string
}

// methods has all request methods of both sides, and the notifications of clients.
var methods = []Method{
	{Name: Initialize, Legacy: true},
	{Name: Discover, Modern: true},
	{Name: Ping, Legacy: true},
	{Name: ToolsList, Legacy: true, Modern: true},
	{Name: ToolsCall, Legacy: true, Modern: true, Call: true, Member: "name", InHeader: true},
	{Name: PromptsList, Legacy: true, Modern: true},
	{Name: PromptsGet, Legacy: true, Modern: true, Call: true, Member: "name", InHeader: true},
	{Name: ResourcesList, Legacy: true, Modern: true},
	{Name: TemplatesList, Legacy: true, Modern: true},
	{Name: ResourcesRead, Legacy: true, Modern: true, Call: true, Member: "uri", InHeader: true},
	{Name: Complete, Legacy: true, Modern: true, Call: true},
	{Name: Subscribe, Legacy: true, Call: true, Member: "uri"},
	{Name: Unsubscribe, Legacy: true, Member: "uri"},
	{Name: Listen, Modern: true},
	{Name: SetLevel, Legacy: true},
	{Name: TasksGet, Legacy: true, Modern: true, Call: true, Member: "taskId"},
	{Name: TasksUpdate, Legacy: true, Modern: true, Call: true, Member: "taskId"},
	{Name: TasksCancel, Legacy: true, Modern: true, Call: true, Member: "taskId"},
	{Name: TasksResult, Legacy: true, Modern: true, Call: true, Member: "taskId"},
	{Name: TasksList, Legacy: true, Modern: true, Call: true, Member: "taskId"},

	{Name: Initialized, Legacy: true},
	{Name: Cancelled, Legacy: true, Modern: true},
	{Name: Progress, Legacy: true, Modern: true},
	{Name: RootsChanged, Legacy: true},

	{Name: Elicit, Legacy: true, Modern: true, Capability: "elicitation"},
	{Name: CreateMessage, Legacy: true, Modern: true, Capability: "sampling"},
	{Name: RootsList, Legacy: true, Modern: true, Capability: "roots"},
}

var methodByName = func() map[string]*Method {
	byName := map[string]*Method{}
	for i := range methods {
		byName[methods[i].Name] = &methods[i]
	}
	return byName
}()

// MethodOf returns the method of a name; for an unknown one, a Method with the name only.
func MethodOf(name string) *Method {
	if m := methodByName[name]; m != nil {
		return m
	}
	return &Method{Name: name}
}

// FromClients returns the names of all request methods and notifications of clients.
func FromClients() (names []string) {
	for _, m := range methods {
		if m.Capability == "" {
			names = append(names, m.Name)
		}
	}
	return names
}

// Exists reports whether a client of this era can use the method.
func (m *Method) Exists(modern bool) bool { return modern && m.Modern || !modern && m.Legacy }

// NameIn returns the required value of a request's HeaderName; ok is false where there is none.
func (m *Method) NameIn(params json.RawMessage) (name string, ok bool) {
	if !m.InHeader {
		return "", false
	}
	return jsonscan.GetString(params, m.Member), true
}

// AsksClient reports whether method is a request of servers to clients.
func AsksClient(method string) bool { return MethodOf(method).Capability != "" }

// CanAsk reports whether a client with these capabilities can be sent requests of this method.
func CanAsk(capabilities json.RawMessage, method string) bool {
	capability := MethodOf(method).Capability
	return capability != "" && Declares(capabilities, capability)
}

// Declares reports whether a peer with these capabilities has this one.
func Declares(capabilities json.RawMessage, name string) bool {
	v := jsonscan.Get(capabilities, name)
	return v != nil && string(v) != "null"
}

// CanAskAny reports whether a client with these capabilities can be sent any request.
func CanAskAny(capabilities json.RawMessage) bool {
	for _, method := range [...]string{Elicit, CreateMessage, RootsList} {
		if CanAsk(capabilities, method) {
			return true
		}
	}
	return false
}

// Lists are the lists with list changed notifications.
var Lists = [...]struct {
	Changed    string // the notification
	Filter     string // the member of the notifications of subscriptions/listen
	Capability string // of servers; its listChanged announces the notification
}{
	{ToolsChanged, "toolsListChanged", "tools"},
	{PromptsChanged, "promptsListChanged", "prompts"},
	{ResChanged, "resourcesListChanged", "resources"},
}

// ListedBy returns the methods of the lists that a list changed notification concerns.
func ListedBy(changed string) []string {
	switch changed {
	case ToolsChanged:
		return []string{ToolsList}
	case PromptsChanged:
		return []string{PromptsList}
	case ResChanged:
		return []string{ResourcesList, TemplatesList}
	}
	return nil
}
