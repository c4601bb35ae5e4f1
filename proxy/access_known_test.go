package proxy_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/auth"
)

func accessRules(t *testing.T, a config.Authz) *proxy.AccessRules {
	t.Helper()
	r, problems := proxy.Compile(&config.Config{IncomingAuth: config.IncomingAuth{Authz: a}}, slog.New(slog.DiscardHandler))
	if r == nil {
		t.Fatal(problems)
	}
	return r
}

// The Who of recent principals is cached, within bounds.
func TestKnownPrincipalsAreBounded(t *testing.T) {
	r := accessRules(t, config.Authz{Policies: []string{"permit(principal, action, resource);"}})
	first := &auth.Principal{Subject: "first", Groups: []string{"g"}}
	who := r.Who(first, "")
	const generation = 5000 // two of them are kept
	var once []*proxy.Who
	for i := range 3 * generation {
		once = append(once, r.Who(&auth.Principal{Subject: fmt.Sprint(i), Groups: []string{"g"}}, ""))
		if i%(generation/2) == 0 && r.Who(first, "") != who {
			t.Fatalf("one who is asked about all the time was forgotten after %d", i)
		}
	}
	for i := range 100 {
		if r.Who(&auth.Principal{Subject: fmt.Sprint(i), Groups: []string{"g"}}, "") == once[i] {
			t.Fatalf("%d is kept after %d others", i, 3*generation-i-1)
		}
	}
}

// Without policies nothing is decided; with them, admins see traces.
func TestWho(t *testing.T) {
	var none *proxy.AccessRules
	if none.Who(nil, "") != nil || !none.Who(nil, "").SeesTraces() || none.Who(nil, "").ScriptsAreOwners() {
		t.Error("without policies somebody is asked about")
	}
	r := accessRules(t, config.Authz{Policies: []string{"permit(principal, action, resource);"}, Scripts: "owner", Admins: config.Admins{Groups: []string{"ops"}, Subjects: []string{"ada"}}})
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
