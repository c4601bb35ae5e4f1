package runs

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// TestAdmission: runs are admitted up to each limit, in order, and refused after a while with the name of the limit.
func TestAdmission(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits config.Limits
		fits   int
		want   string
	}{
		{"runs", config.Limits{Runs: 2}, 2, "2 scripts run already (limits.runs)"},
		{"one person", config.Limits{RunsPerPrincipal: 1}, 1, "1 of your scripts run already (limits.runsPerPrincipal)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := NewAdmission(nil)
				a.Set(tt.limits)
				var leave []func()
				for range tt.fits {
					release, err := a.Enter(t.Context(), "ann", "t", 0)
					if err != nil {
						t.Fatal(err)
					}
					leave = append(leave, release)
				}
				_, err := a.Enter(t.Context(), "ann", "t", 0)
				if err == nil || !strings.Contains(err.Error(), tt.want) || codeOf(err) != wire.Busy {
					t.Errorf("one too many: %v, want %s", err, tt.want)
				}
				entered := make(chan error)
				go func() {
					release, err := a.Enter(t.Context(), "ann", "t", 0)
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

func codeOf(err error) int {
	var rpc *wire.Error
	if errors.As(err, &rpc) {
		return rpc.Code
	}
	return 0
}

// TestWaitingForAdmissionIsBounded: the queue is bounded by number and bytes, and empty when no run waits.
func TestWaitingForAdmissionIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name string
		size int
		fit  int
	}{
		{"number", 10, maxWaiting},
		{"bytes", 4 << 20, maxWaitingBytes / (4 << 20)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := NewAdmission(nil)
				a.Set(config.Limits{Runs: 1})
				release, err := a.Enter(t.Context(), "ann", "t", 0)
				if err != nil {
					t.Fatal(err)
				}
				const more = 20
				results := make(chan error, tt.fit+more)
				for range tt.fit + more {
					go func() {
						release, err := a.Enter(t.Context(), "bob", "t", tt.size)
						if err == nil {
							release()
						}
						results <- err
					}()
				}
				synctest.Wait()
				if n := len(results); n != more {
					t.Errorf("%d were refused at once, want %d", n, more)
				}
				for range more {
					if err := <-results; codeOf(err) != wire.Busy {
						t.Errorf("refused with %v", err)
					}
				}
				release()
				for range tt.fit {
					if err := <-results; err != nil {
						t.Error(err)
					}
				}
				if a.running != 0 || len(a.byPrincipal) != 0 || a.bytes != 0 || len(a.waiting) != 0 {
					t.Errorf("left behind: %d runs, %v, %d bytes, %d waiting", a.running, a.byPrincipal, a.bytes, len(a.waiting))
				}
			})
		})
	}
}

// TestBeside: the runs of two endpoints of a process count together; their principals count separately, each by the
// limit of its endpoint.
func TestBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdmission(nil)
		b := a.Beside()
		a.Set(config.Limits{Runs: 3, RunsPerPrincipal: 1})
		b.Set(config.Limits{Runs: 3, RunsPerPrincipal: 2})
		if a.Pool != b.Pool {
			t.Error("the memory of runs is not shared")
		}
		enter := func(a *Admission, want string) func() {
			t.Helper()
			leave, err := a.Enter(t.Context(), "ann", "t", 0)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("Enter = %v, want %q", err, want)
			}
			return leave
		}
		leave := []func(){enter(a, ""), enter(b, ""), enter(b, "")}
		enter(a, "1 of your scripts run already")
		enter(b, "2 of your scripts run already")
		leave[0]()
		enter(a, "")()
		if _, err := b.Enter(t.Context(), "bob", "t", 0); err != nil {
			t.Error(err)
		}
		enter(a, "3 scripts run already (limits.runs)")
	})
}

// TestShares: a replica admits its share of the limits, rounded up, and queued runs when other replicas leave.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdmission(nil)
		a.Share(3)
		a.Set(config.Limits{Runs: 7, RunsPerPrincipal: 5})
		for _, who := range []string{"ann", "ann", "bob"} {
			if _, err := a.Enter(t.Context(), who, "t", 0); err != nil {
				t.Fatal(err)
			}
		}
		for who, want := range map[string]string{
			"ann": "2 of your scripts run here already (limits.runsPerPrincipal: 5 among 3 replicas)",
			"eve": "3 scripts run here already (limits.runs: 7 among 3 replicas)",
		} {
			if _, err := a.Enter(t.Context(), who, "t", 0); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("one too many of %s: %v, want %s", who, err, want)
			}
		}
		entered := make(chan error)
		go func() {
			_, err := a.Enter(t.Context(), "eve", "t", 0)
			entered <- err
		}()
		synctest.Wait()
		a.Share(2)
		if err := <-entered; err != nil {
			t.Errorf("one that waited when a replica left: %v", err)
		}
	})
}
