package access

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/config"
)

func rules(t *testing.T, a config.Authz) *Rules {
	t.Helper()
	r, problems := Compile(&config.Config{IncomingAuth: config.IncomingAuth{Authz: a}}, slog.New(slog.DiscardHandler))
	if r == nil {
		t.Fatal(problems)
	}
	return r
}

// Who was asked about lately is kept, and no more than so many.
func TestKnownPrincipalsAreBounded(t *testing.T) {
	r := rules(t, config.Authz{Policies: []string{"permit(principal, action, resource);"}})
	first := &auth.Principal{Subject: "first", Groups: []string{"g"}}
	who := r.Who(first, "")
	for i := range 3 * maxKnown {
		r.Who(&auth.Principal{Subject: fmt.Sprint(i), Groups: []string{"g"}}, "")
		if i%(maxKnown/2) == 0 && r.Who(first, "") != who {
			t.Fatalf("one who is asked about all the time was forgotten after %d", i)
		}
	}
	if n := len(r.known.now) + len(r.known.old); n > 2*maxKnown {
		t.Errorf("%d are kept", n)
	}
}

// Without policies nothing is decided; with them, admins see traces.
func TestWho(t *testing.T) {
	var none *Rules
	if none.Who(nil, "") != nil || !none.Who(nil, "").SeesTraces() || none.Who(nil, "").ScriptsAreOwners() {
		t.Error("without policies somebody is asked about")
	}
	r := rules(t, config.Authz{Policies: []string{"permit(principal, action, resource);"}, Scripts: "owner", Admins: config.Admins{Groups: []string{"ops"}, Subjects: []string{"ada"}}})
	for _, tt := range []struct {
		p    *auth.Principal
		want bool
	}{{nil, false}, {&auth.Principal{Subject: "ada"}, true}, {&auth.Principal{Subject: "bob"}, false}, {&auth.Principal{Subject: "bob", Groups: []string{"dev", "ops"}}, true}} {
		if got := r.Who(tt.p, "").SeesTraces(); got != tt.want {
			t.Errorf("%+v sees traces: %v", tt.p, got)
		}
	}
	if !r.Who(nil, "").ScriptsAreOwners() {
		t.Error("scripts are not owners")
	}
}
