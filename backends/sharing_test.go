package backends_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends"
)

// Callers by their names in the table of the package. Those that can be asked declare elicitation.
var (
	elicits   = json.RawMessage(`{"elicitation":{}}`)
	stateless = backends.SharingCaller{Reachable: true}
	anonymous = backends.SharingCaller{Reachable: true, Capabilities: elicits}
	principal = backends.SharingCaller{Reachable: true, Principal: "ann"}
	askedOf   = backends.SharingCaller{Reachable: true, Principal: "ann", Capabilities: elicits}
	session   = backends.SharingCaller{Reachable: true, Session: "s1"}
	asked     = backends.SharingCaller{Reachable: true, Session: "s1", Capabilities: elicits}
	logs      = backends.SharingCaller{Reachable: true, Session: "s1", LogLevel: "info"}
)

// TestTableOfCapabilities is the table at the head of sharing.go, row by row.
func TestTableOfCapabilities(t *testing.T) {
	modern := backends.SharingBackend{Modern: true}
	both := backends.SharingBackend{Modern: true, LegacyToo: true, Stdio: true}
	free := backends.SharingBackend{}
	ids := backends.SharingBackend{KeepsState: true}
	sse := backends.SharingBackend{SSE: true, KeepsState: true}
	stdio := backends.SharingBackend{Stdio: true}
	mode := func(b backends.SharingBackend, mode string) backends.SharingBackend { b.Mode = mode; return b }
	each := func(b backends.SharingBackend) backends.SharingBackend { b.PerPrincipal = true; return b }
	for _, tt := range []struct {
		backend backends.SharingBackend
		caller  backends.SharingCaller
		want    backends.SharingKind
		key     string // what tells private sessions apart; "" where none is looked for
	}{
		{modern, asked, backends.Main, ""},
		{modern, stateless, backends.Main, ""},
		{free, session, backends.Shared, ""},
		{free, asked, backends.Main, ""},
		{free, logs, backends.Shared, ""},
		{ids, session, backends.Private, "session"},
		{ids, principal, backends.Private, "principal, capabilities"},
		{ids, anonymous, backends.Private, "capabilities"},
		{ids, stateless, backends.Shared, ""},
		{sse, session, backends.Private, "session"},
		{sse, anonymous, backends.Private, "capabilities, one at a time"},
		{sse, principal, backends.Private, "principal, capabilities"},
		{sse, stateless, backends.Shared, ""},
		{stdio, session, backends.Main, ""},
		{stdio, stateless, backends.Main, ""},
		{stdio, asked, backends.Private, "session"},
		{stdio, logs, backends.Private, "session"},
		{stdio, anonymous, backends.Private, "capabilities, one at a time"},
		{both, asked, backends.Private, "session"},
		{both, session, backends.Main, ""},
		{both, anonymous, backends.Main, ""},
		{both, logs, backends.InTurns, ""},
		{mode(ids, "exclusive"), session, backends.Private, "session"},
		{mode(ids, "exclusive"), principal, backends.Private, "principal, capabilities"},
		{mode(stdio, "exclusive"), askedOf, backends.Private, "principal, capabilities"},
		{mode(stdio, "exclusive"), anonymous, backends.Private, "refused"},
		{mode(free, "exclusive"), session, backends.Shared, ""},
		{mode(ids, "shared"), asked, backends.InTurns, ""},
		{mode(ids, "shared"), session, backends.Main, ""},
		{mode(stdio, "shared"), anonymous, backends.InTurns, ""},
		{each(modern), session, backends.Private, "session"},
		{each(modern), principal, backends.Private, "principal, capabilities"},
		{each(stdio), askedOf, backends.Private, "principal, capabilities, one at a time"},
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
func apart(b backends.SharingBackend, c backends.SharingCaller) string {
	key, oneAtATime, err := b.KeyOf(&c)
	if err != nil {
		return "refused"
	}
	var by []string
	for _, other := range []struct {
		by     string
		change func(*backends.SharingCaller)
	}{
		{"session", func(c *backends.SharingCaller) { c.Session = "other" }},
		{"principal", func(c *backends.SharingCaller) { c.Principal = "other" }},
		{"capabilities", func(c *backends.SharingCaller) { c.Capabilities = json.RawMessage(`{"sampling":{}}`) }},
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
	b := backends.SharingBackend{KeepsState: true}
	if _, _, err := b.KeyOf(&backends.SharingCaller{Principal: "ann", Capabilities: large}); err != backends.ErrSharingTooLarge {
		t.Errorf("of a principal: %v", err)
	}
	if _, _, err := b.KeyOf(&backends.SharingCaller{Session: "s1", Capabilities: large}); err != nil {
		t.Errorf("of a session: %v", err)
	}
}
