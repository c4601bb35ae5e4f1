package backends_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/examples/backends/workspace"
	"github.com/vmcp-dev/vmcp/examples/backends/yamlfile"
	"github.com/vmcp-dev/vmcp/examples/demo"
	"github.com/vmcp-dev/vmcp/script"
)

// shop is the demo laid out in a folder, with its real backends in memory.
type shop struct {
	t        *testing.T
	dir      string
	cfg      *config.Config
	backends map[string]*mcp.ClientSession
	logged   []string
}

func open(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, dir: t.TempDir(), backends: map[string]*mcp.ClientSession{}}
	if err := demo.Write(s.dir); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.cfg, err = config.Parse(filepath.Join(s.dir, "vmcp.yaml"), demo.Config("/bin/vmcp", s.dir)); err != nil {
		t.Fatal(err)
	}
	w, err := workspace.New(workspace.Options{
		Root: filepath.Join(s.dir, "workspace"), Database: filepath.Join(s.dir, "demo.db"), Seed: filepath.Join(s.dir, "seed.sql"),
	})
	if err != nil {
		t.Fatal(err)
	}
	y, err := yamlfile.New(yamlfile.Options{Root: filepath.Join(s.dir, "workspace")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); y.Close() })
	s.connect("workspace", w.Server())
	s.connect("yamlfile", y.Server())
	return s
}

func (s *shop) connect(name string, server *mcp.Server) {
	s.t.Helper()
	near, far := mcp.NewInMemoryTransports()
	ss, err := server.Connect(s.t.Context(), far, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(s.t.Context(), near, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { cs.Close(); ss.Wait() })
	s.backends[name] = cs
}

// CallTool calls {backend}_{tool} as the proxy names it.
func (s *shop) CallTool(ctx context.Context, name string, args json.RawMessage, _ builtins.CallOptions) (json.RawMessage, error) {
	backend, tool, _ := strings.Cut(name, "_")
	if s.backends[backend] == nil {
		return nil, &builtins.ToolError{Kind: builtins.NotFound, Msg: "no tool " + name}
	}
	r, err := s.backends[backend].CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

func (s *shop) Elicit(context.Context, script.Question) (json.RawMessage, error) {
	return nil, builtins.ErrNoElicitation
}

func (s *shop) Notify(_ context.Context, n builtins.Notice) { s.logged = append(s.logged, n.Message) }

// run runs a scripted tool of the configuration.
func (s *shop) run(tool, args string) (string, error) {
	s.t.Helper()
	for _, c := range s.cfg.ScriptedTools {
		if c.Name != tool {
			continue
		}
		src, err := os.ReadFile(c.ScriptFile)
		if err != nil {
			s.t.Fatal(err)
		}
		p, err := script.Compile(script.File{Name: filepath.Base(c.ScriptFile), Source: src}, script.Options{Builtins: builtins.All()})
		if err != nil {
			s.t.Fatal(err)
		}
		r, err := p.Run(s.t.Context(), script.RunOptions{Args: json.RawMessage(args), Host: s})
		if err != nil {
			return "", err
		}
		return string(r.Structured), nil
	}
	s.t.Fatalf("no scripted tool %s", tool)
	return "", nil
}

func (s *shop) services() string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, "workspace", "services.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

func TestReportJoinsBothBackends(t *testing.T) {
	got, err := open(t).run(demo.Tool, demo.Arguments)
	want := `{"services":[` +
		`{"name":"mailer","owner":"anna","replicas":1,"incidents":1,"minutes_down":180,"last":"queue full over night"},` +
		`{"name":"checkout","owner":"ben","replicas":2,"incidents":3,"minutes_down":77,"last":"bad deploy, rolled back"},` +
		`{"name":"web","owner":"anna","replicas":3,"incidents":1,"minutes_down":12,"last":"certificate renewed late"}]}`
	if err != nil || got != want {
		t.Errorf("%s(%s):\n got %s, %v\nwant %s", demo.Tool, demo.Arguments, got, err, want)
	}
}

func TestScaleChangesOneLineAndNotesIt(t *testing.T) {
	s := open(t)
	before := s.services()
	got, err := s.run("scale_service", `{"service": "checkout", "replicas": 4, "reason": "sale"}`)
	want := `{"service":"checkout","before":2,"after":4,"changed":true}`
	if err != nil || got != want {
		t.Fatalf("scale_service:\n got %s, %v\nwant %s", got, err, want)
	}
	if now := s.services(); now != strings.Replace(before, "replicas: 2\n", "replicas: 4\n", 1) {
		t.Errorf("services.yaml after scale_service:\n%s", now)
	}
	raw, err := s.CallTool(t.Context(), "workspace_sql_query", json.RawMessage(`{"sql": "SELECT service, before, after, reason FROM changes"}`), builtins.CallOptions{})
	if err != nil || !strings.Contains(string(raw), `[["checkout","2","4","sale"]]`) {
		t.Errorf("changes noted: %s, %v", raw, err)
	}
}

func TestWrongInputSaysWhatWouldBeRight(t *testing.T) {
	s := open(t)
	for args, want := range map[string]string{
		`{"service": "chekout", "replicas": 4}`:   `no service "chekout" in services.yaml: want one of web, checkout, mailer`,
		`{"service": "checkout", "replicas": 99}`: `checkout: want 1 to 20 replicas, have 99`,
	} {
		if _, err := s.run("scale_service", args); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("scale_service(%s): got %v, want an error with %q", args, err, want)
		}
	}
}

func TestTodosAreFoundInAllNotes(t *testing.T) {
	got, err := open(t).run("find_todos", `{}`)
	want := `{"todos":[` +
		`{"file":"notes/ideas.md","line":4,"text":"TODO: a budget per owner"},` +
		`{"file":"notes/runbook.md","line":3,"text":"TODO: write down who is on call"},` +
		`{"file":"notes/runbook.md","line":5,"text":"TODO: add the mailer to the alarms"}],"files":3}`
	if err != nil || got != want {
		t.Errorf("find_todos:\n got %s, %v\nwant %s", got, err, want)
	}
}

// The demo's tools change files of the workspace, and a second start must not undo that;
// the scripts are replaced by those of this program.
func TestWriteKeepsTheWorkspace(t *testing.T) {
	s := open(t)
	if _, err := s.run("scale_service", `{"service": "web", "replicas": 5}`); err != nil {
		t.Fatal(err)
	}
	before, old := s.services(), filepath.Join(s.dir, "scripts", "find_todos.star")
	if err := os.WriteFile(old, []byte("of an older version"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := demo.Write(s.dir); err != nil {
		t.Fatal(err)
	}
	if s.services() != before {
		t.Error("Write replaced services.yaml")
	}
	if _, err := s.run("find_todos", `{}`); err != nil {
		t.Errorf("the script of an older version was kept: %v", err)
	}
}

// Any path can be in the configuration, whatever YAML makes of its characters.
func TestConfigKeepsOddPaths(t *testing.T) {
	self, dir := `/opt/a "b": #c/vm&cp`, t.TempDir()+"/ü: {x}"
	if err := demo.Write(dir); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse(filepath.Join(dir, "vmcp.yaml"), demo.Config(self, dir))
	if err != nil {
		t.Fatal(err)
	}
	b := cfg.Backends[0]
	if b.Command != self || b.Args[3] != filepath.Join(dir, "workspace") {
		t.Errorf("backend: got %q %q", b.Command, b.Args)
	}
}
