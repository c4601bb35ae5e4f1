package wire

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// Method is what MCP says of a method: of a request, or of a notification of a client.
type Method struct {
	Name   string
	Legacy bool // exists in the revisions with sessions
	Modern bool // exists in 2026-07-28
	// Call says that it calls something that a backend or a script offers, or a task that
	// came of it. All else is about the endpoint, its lists and what a client listens to.
	Call bool
	// Member is the member of params that names what is called. HeaderName has the same
	// value where the transport wants it (InHeader).
	Member   string
	InHeader bool
	// Capability is what a client declares to be asked this; "" where servers are asked.
	Capability string
}

// methods is every method that one side asks the other for, and the notifications of clients.
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

// MethodOf is what MCP says of the method of that name; of one that it does not know, nothing.
func MethodOf(name string) *Method {
	if m := methodByName[name]; m != nil {
		return m
	}
	return &Method{Name: name}
}

// FromClients are the names of all methods and notifications of clients.
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

// NameIn is the name that a request's HeaderName has to have; ok is false where it has none.
func (m *Method) NameIn(params json.RawMessage) (name string, ok bool) {
	if !m.InHeader {
		return "", false
	}
	return jsonscan.GetString(params, m.Member), true
}

// AsksClient reports whether method is one that a server may ask a client.
func AsksClient(method string) bool { return MethodOf(method).Capability != "" }

// CanAsk reports whether a client with these capabilities can be asked this.
func CanAsk(capabilities json.RawMessage, method string) bool {
	capability := MethodOf(method).Capability
	return capability != "" && Declares(capabilities, capability)
}

// Declares reports whether a peer with these capabilities has this one.
func Declares(capabilities json.RawMessage, name string) bool {
	v := jsonscan.Get(capabilities, name)
	return v != nil && string(v) != "null"
}

// CanAskAny reports whether a client with these capabilities can be asked anything.
func CanAskAny(capabilities json.RawMessage) bool {
	for _, method := range [...]string{Elicit, CreateMessage, RootsList} {
		if CanAsk(capabilities, method) {
			return true
		}
	}
	return false
}

// Lists are the lists that a server announces changes of.
var Lists = [...]struct {
	Changed    string // the notification
	Filter     string // the member of subscriptions/listen that asks for it
	Capability string // of servers; with listChanged they announce changes
}{
	{ToolsChanged, "toolsListChanged", "tools"},
	{PromptsChanged, "promptsListChanged", "prompts"},
	{ResChanged, "resourcesListChanged", "resources"},
}

// ListedBy are the methods that list what a notification of Lists is about.
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
