package proxy

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/script"
)

// TestAdmission lets runs in up to each cap, in order, and refuses after a while with
// the name of what is used up.
func TestAdmission(t *testing.T) {
	run := func(who string) *host {
		return &host{
			tool:  &scriptedTool{name: "t", limits: script.Limits{Memory: 64 << 20}},
			x:     &exchange{client: &client{principal: who}},
			chain: []string{"t"},
		}
	}
	for _, tt := range []struct {
		name   string
		limits config.Limits
		fits   int
		want   string
	}{
		{"runs", config.Limits{Runs: 2}, 2, "2 scripts run already (limits.runs)"},
		{"memory", config.Limits{TotalMemory: 200 << 20}, 3, "all of 200 MiB together (limits.totalMemory)"},
		{"one person", config.Limits{RunsPerPrincipal: 1}, 1, "1 of your scripts run already (limits.runsPerPrincipal)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a admission
				a.set(tt.limits)
				var leave []func()
				for range tt.fits {
					release, err := a.enter(t.Context(), run("ann"))
					if err != nil {
						t.Fatal(err)
					}
					leave = append(leave, release)
				}
				if _, err := a.enter(t.Context(), run("ann")); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("one too many: %v, want %s", err, tt.want)
				}
				nested := run("ann")
				nested.chain = []string{"t", "u"}
				if _, err := a.enter(t.Context(), nested); err != nil {
					t.Errorf("a script that a script calls: %v", err)
				}
				entered := make(chan error)
				go func() {
					release, err := a.enter(t.Context(), run("ann"))
					if err == nil {
						release()
					}
					entered <- err
				}()
				synctest.Wait()
				leave[0]()
				if err := <-entered; err != nil {
					t.Errorf("after one left: %v", err)
				}
			})
		})
	}
}
