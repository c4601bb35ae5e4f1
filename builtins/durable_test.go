package builtins_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"

	"github.com/vmcp-dev/vmcp/script/journaltest"
)

// keyed is a host that honours idempotency keys: a repeated call with the same key gets the answer of the first.
type keyed struct {
	*scripttest.Host
	mu      sync.Mutex
	answers map[string]answered // by key
}

type answered struct {
	raw json.RawMessage
	err error
}

func (k *keyed) once(ctx context.Context, key string, ask func() (json.RawMessage, error)) (json.RawMessage, error) {
	k.mu.Lock()
	a, ok := k.answers[key]
	k.mu.Unlock()
	if ok {
		script.NoteRead(ctx, int64(len(a.raw)))
		return a.raw, a.err
	}
	if a.raw, a.err = ask(); a.err != nil && !errors.As(a.err, new(*builtins.ToolError)) {
		return a.raw, a.err // no answer
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers[key] = a
	return a.raw, a.err
}

func (k *keyed) CallTool(ctx context.Context, name string, args json.RawMessage, o builtins.CallOptions) (json.RawMessage, error) {
	return k.once(ctx, o.IdempotencyKey, func() (json.RawMessage, error) { return k.Host.CallTool(ctx, name, args, o) })
}

func (k *keyed) Elicit(ctx context.Context, q script.Question) (json.RawMessage, error) {
	return k.once(ctx, "elicit "+q.Key, func() (json.RawMessage, error) { return k.Host.Elicit(ctx, q) })
}

// trial runs one program over one journal, with its own host.
type trial struct {
	program *script.Program
	world   *keyed
	journal *script.Memory
	repeat  script.Repeat
}

func newTrial(p *script.Program, how script.Repeat) *trial {
	return &trial{p, &keyed{Host: world(), answers: map[string]answered{}}, script.NewJournal(), how}
}

func (r *trial) run(ctx context.Context, j script.Journal) (string, error) {
	var stats script.Stats
	res, err := r.program.Run(ctx, script.RunOptions{
		Host: r.world, Journal: j, ID: "run", Stats: &stats, Repeat: func(script.Effect) script.Repeat { return r.repeat },
	})
	if errors.As(err, new(*script.Suspended)) || errors.As(err, new(*script.JournalError)) {
		return "", err
	}
	return fmt.Sprint(res != nil, err, stats.Steps, stats.Calls, stats.Memory), err
}

// finish runs to the end; every doubt is resolved by another attempt.
func (r *trial) finish(t *testing.T) string {
	for range 50 {
		end, err := r.run(t.Context(), r.journal)
		var s *script.Suspended
		if !errors.As(err, &s) {
			return end
		}
		for _, d := range s.Doubts {
			if err := r.journal.Resolve(script.Entry{Key: d.Key}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return "comes to no end"
}

// cut runs the program, kills it at a write, and resumes it.
func (r *trial) cut(t *testing.T, at int, lost bool) string {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	_, _ = r.run(ctx, &journaltest.Kill{Journal: r.journal, At: at, Lost: lost, Cancel: cancel})
	return r.finish(t)
}

// TestEveryProgramGoesOnAfterEachEffect runs all programs of testdata uninterrupted, and killed at each write of their
// journal and resumed: result and usage are the same.
func TestEveryProgramGoesOnAfterEachEffect(t *testing.T) {
	files, err := filepath.Glob("testdata/*.star")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	cuts := 0
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, chunk := range strings.Split(string(src), "\n---\n") {
			synctest.Test(t, func(t *testing.T) { cuts += cutEverywhere(t, fmt.Sprintf("%s, program %d", file, i), chunk) })
		}
	}
	if cuts < 300 {
		t.Errorf("only %d cuts", cuts)
	}
}

func cutEverywhere(t *testing.T, name, src string) (cuts int) {
	names := builtins.All()
	names["eq"] = starlark.NewBuiltin("eq", eq)
	p, err := script.Compile(script.File{Name: "test.star", Source: []byte(src + "\ndef run(params): pass\n")}, script.Options{Builtins: names})
	if err != nil {
		return 0
	}
	alike := script.Once
	if strings.Contains(src, "hang") { // a call without an answer that may not be repeated leaves a doubt
		alike = script.Idempotent
	}
	whole := newTrial(p, alike)
	counted := &journaltest.Kill{Journal: whole.journal}
	want, _ := whole.run(t.Context(), counted)
	if counted.Writes() > testmode.Count(100, 500) {
		return 0
	}
	step := max(1, counted.Writes()/testmode.Count(6, 40))
	for at := 1; at <= counted.Writes(); at += step {
		for _, lost := range []bool{false, true} {
			if lost && strings.Contains(src, `call_tool("log")`) { // it reads what the killed process has logged, too
				continue
			}
			for _, how := range []script.Repeat{script.Once, script.Idempotent, script.ReadOnly} {
				if how == script.ReadOnly && at > counted.Writes()/2 { // it begins nothing
					continue
				}
				// A doubt waits for what others wait for, and try_call_tool says that something is not known.
				if how == script.Once && (strings.Contains(src, "hang") || strings.Contains(src, "try_call_tool")) {
					continue
				}
				cuts++
				if got := newTrial(p, how).cut(t, at, lost); got != want {
					t.Errorf("%s, killed at write %d (lost: %v, %v):\n got %s\nwant %s", name, at, lost, how, got, want)
				}
			}
		}
	}
	return cuts
}
