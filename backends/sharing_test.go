package backends_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/internal/sharing"
)

// Callers by their names in the table of the package. Those that can be asked declare elicitation.
var (
	elicits   = json.RawMessage(`{"elicitation":{}}`)
	stateless = sharing.Caller{Reachable: true}
	anonymous = sharing.Caller{Reachable: true, Capabilities: elicits}
	principal = sharing.Caller{Reachable: true, Principal: "ann"}
	askedOf   = sharing.Caller{Reachable: true, Principal: "ann", Capabilities: elicits}
	session   = sharing.Caller{Reachable: true, Session: "s1"}
	asked     = sharing.Caller{Reachable: true, Session: "s1", Capabilities: elicits}
	logs      = sharing.Caller{Reachable: true, Session: "s1", LogLevel: "info"}
)

// TestTableOfCapabilities is the table at the head of package sharing, row by row.
func TestTableOfCapabilities(t *testing.T) {
	modern := sharing.Backend{Modern: true}
	both := sharing.Backend{Modern: true, LegacyToo: true, Stdio: true}
	free := sharing.Backend{}
	ids := sharing.Backend{KeepsState: true}
	sse := sharing.Backend{SSE: true, KeepsState: true}
	stdio := sharing.Backend{Stdio: true}
	mode := func(b sharing.Backend, mode string) sharing.Backend { b.Mode = mode; return b }
	each := func(b sharing.Backend) sharing.Backend { b.PerPrincipal = true; return b }
	for _, tt := range []struct {
		backend sharing.Backend
		caller  sharing.Caller
		want    sharing.Kind
		key     string // what tells private sessions apart; "" where none is looked for
	}{
		{modern, asked, sharing.Main, ""},
		{modern, stateless, sharing.Main, ""},
		{free, session, sharing.Shared, ""},
		{free, asked, sharing.Main, ""},
		{free, logs, sharing.Shared, ""},
		{ids, session, sharing.Private, "session"},
		{ids, principal, sharing.Private, "principal, capabilities"},
		{ids, anonymous, sharing.Private, "capabilities"},
		{ids, stateless, sharing.Shared, ""},
		{sse, session, sharing.Private, "session"},
		{sse, anonymous, sharing.Private, "capabilities, one at a time"},
		{sse, principal, sharing.Private, "principal, capabilities"},
		{sse, stateless, sharing.Shared, ""},
		{stdio, session, sharing.Main, ""},
		{stdio, stateless, sharing.Main, ""},
		{stdio, asked, sharing.Private, "session"},
		{stdio, logs, sharing.Private, "session"},
		{stdio, anonymous, sharing.Private, "capabilities, one at a time"},
		{both, asked, sharing.Private, "session"},
		{both, session, sharing.Main, ""},
		{both, anonymous, sharing.Main, ""},
		{both, logs, sharing.InTurns, ""},
		{mode(ids, "exclusive"), session, sharing.Private, "session"},
		{mode(ids, "exclusive"), principal, sharing.Private, "principal, capabilities"},
		{mode(stdio, "exclusive"), askedOf, sharing.Private, "principal, capabilities"},
		{mode(stdio, "exclusive"), anonymous, sharing.Private, "refused"},
		{mode(free, "exclusive"), session, sharing.Shared, ""},
		{mode(ids, "shared"), asked, sharing.InTurns, ""},
		{mode(ids, "shared"), session, sharing.Main, ""},
		{mode(stdio, "shared"), anonymous, sharing.InTurns, ""},
		{each(modern), session, sharing.Private, "session"},
		{each(modern), principal, sharing.Private, "principal, capabilities"},
		{each(stdio), askedOf, sharing.Private, "principal, capabilities, one at a time"},
	} {
		if got := tt.backend.Of(&tt.caller); got != tt.want {
			t.Errorf("a call for %+v on %+v runs on %d, want %d", tt.caller, tt.backend, got, tt.want)
		}
		if tt.key == "" {
			continue
		}
		if got := apart(tt.backend, tt.caller); got != tt.key {
			t.Errorf("private sessions of %+v on %+v are distinguished by %q, want %q", tt.caller, tt.backend, got, tt.key)
		}
	}
}

// apart returns the properties by which private sessions of callers such as c are distinguished.
func apart(b sharing.Backend, c sharing.Caller) string {
	key, oneAtATime, err := b.KeyOf(&c)
	if err != nil {
		return "refused"
	}
	var by []string
	for _, other := range []struct {
		by     string
		change func(*sharing.Caller)
	}{
		{"session", func(c *sharing.Caller) { c.Session = "other" }},
		{"principal", func(c *sharing.Caller) { c.Principal = "other" }},
		{"capabilities", func(c *sharing.Caller) { c.Capabilities = json.RawMessage(`{"sampling":{}}`) }},
	} {
		changed := c
		if other.change(&changed); other.by == "session" && c.Session == "" || other.by == "principal" && c.Principal == "" {
			continue
		}
		if k, _, _ := b.KeyOf(&changed); k != key {
			by = append(by, other.by)
		}
	}
	if oneAtATime {
		by = append(by, "one at a time")
	}
	return strings.Join(by, ", ")
}

// TestCapabilitiesAreBounded: in the key of a private session; in a client session they are not
// part of the key.
func TestCapabilitiesAreBounded(t *testing.T) {
	large := json.RawMessage(strings.Repeat(" ", 17<<10) + "{}")
	b := sharing.Backend{KeepsState: true}
	if _, _, err := b.KeyOf(&sharing.Caller{Principal: "ann", Capabilities: large}); err != sharing.ErrTooLarge {
		t.Errorf("of a principal: %v", err)
	}
	if _, _, err := b.KeyOf(&sharing.Caller{Session: "s1", Capabilities: large}); err != nil {
		t.Errorf("of a session: %v", err)
	}
}
