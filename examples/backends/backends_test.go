// Package backends_test runs the example backends behind the program, as their README shows.
package backends_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolclient"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/rig"
)

var binary string

func TestMain(m *testing.M) {
	if !testmode.Thorough() { // nothing here needs the program
		os.Exit(m.Run())
	}
	os.Exit(rig.WithBinary(&binary, m.Run))
}

// build builds the commands of the example backends.
func build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func TestBehindTheProgram(t *testing.T) {
	testmode.NeedThorough(t)
	bin := build(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "from the web") }))
	defer web.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "vmcp.yaml")
	config := `
backends:
  - {name: run, command: BIN/exec, args: [-allow, echo, -root, DIR]}
  - {name: web, command: BIN/http, args: [-allow, HOST, -allow-private]}
  - {name: db, command: BIN/sqlite, args: [-db, DIR/d.db]}
scriptedTools:
  - name: all
    description: Asks each.
    script: |
      def run(params):
          call_tool("db_execute", {"sql": "CREATE TABLE t (x)"})
          call_tool("db_execute", {"sql": "INSERT INTO t VALUES (?)", "params": [9007199254740993]})
          return {
              "run": call_tool("run_run", {"command": "echo", "args": ["$HOME; ls"]})["stdout"],
              "web": call_tool("web_http_get", {"url": "http://HOST/"}).get("text", ""),
              "db": call_tool("db_query", {"sql": "SELECT x FROM t"})["rows"],
              "refused": try_call_tool("run_run", {"command": "ls"}).error,
          }
`
	config = strings.NewReplacer("BIN", bin, "DIR", dir, "HOST", web.Listener.Addr().String()).Replace(config)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	p, addr, err := rig.Serve(t.Context(), &log, binary, file)
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	defer p.Stop()
	if err := rig.AwaitReady(t.Context(), addr); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	var got struct {
		Run, Web, Refused string
		DB                [][]int64
	}
	toolclient.Connect(t, &mcp.StreamableClientTransport{Endpoint: "http://" + addr + "/mcp"}).OK("all", nil, &got)
	if got.Run != "$HOME; ls\n" || got.Web != "from the web" || got.DB[0][0] != 9007199254740993 || !strings.Contains(got.Refused, "not_allowed") {
		t.Errorf("%+v\n%s", got, &log)
	}
}

// The configuration of the README, with other folders: every backend is connected, and
// each is called.
func TestReadme(t *testing.T) {
	testmode.NeedThorough(t)
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 1 {
		t.Fatalf("the README has %d configurations, want one", len(blocks))
	}
	db := runstest.Start(t)
	srv := t.TempDir()
	for _, folder := range []string{"notes", "repo"} {
		if err := os.Mkdir(filepath.Join(srv, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(srv, "notes", "todo.md"), []byte("buy milk"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "vmcp.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(blocks[0][1], "/srv/", srv+"/")), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	p, addr, err := rig.Serve(t.Context(), &log, binary, file, "PATH="+build(t)+string(os.PathListSeparator)+os.Getenv("PATH"), "DATABASE_URL="+db.URL())
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	defer p.Stop()
	if err := rig.AwaitReady(t.Context(), addr); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	c := toolclient.Connect(t, &mcp.StreamableClientTransport{Endpoint: "http://" + addr + "/mcp"})
	var note struct {
		Path, Text           string
		Size, Offset, Length int
	}
	c.OK("files_read_file", toolclient.Args{"path": "todo.md"}, &note)
	var ran struct {
		ExitCode       int
		Stdout, Stderr string
		Truncated      bool
	}
	c.OK("git_run", map[string]any{"command": "git", "args": []string{"--version"}}, &ran)
	var shop struct {
		Columns   []string
		Rows      [][]any
		Truncated bool
	}
	c.OK("shop_query", map[string]any{"sql": "SELECT 'sold', 42::bigint"}, &shop)
	if note.Text != "buy milk" || !strings.HasPrefix(ran.Stdout, "git version ") || len(shop.Rows) != 1 || shop.Rows[0][0] != "sold" {
		t.Errorf("%+v, %+v, %+v\n%s", note, ran, shop, &log)
	}
	if strings.Contains(log.String(), db.URL()) {
		t.Errorf("the log has the URL of the database:\n%s", &log)
	}
}

// A line that is no message is answered with an error, and the server continues.
func TestMalformedLines(t *testing.T) {
	testmode.NeedThorough(t)
	bin := build(t)
	for name, args := range map[string][]string{
		"exec": {"-allow", "true"}, "http": {"-allow", "a.test"}, "sqlite": {"-db", filepath.Join(t.TempDir(), "d.db")},
		"postgres": {"-dsn", "postgres://a.test/x"}, "workspace": nil, "yamlfile": nil,
	} {
		c := exec.CommandContext(t.Context(), filepath.Join(bin, name), args...)
		c.Dir = t.TempDir()
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		io.WriteString(in, "{\"jsonrpc\":\n\x00\xff\n[]\n"+`{"jsonrpc":"2.0","id":7,"method":"ping"}`+"\n")
		var lines []string
		for scan := bufio.NewScanner(out); len(lines) < 4 && scan.Scan(); {
			lines = append(lines, scan.Text())
		}
		in.Close()
		err = c.Wait()
		all := strings.Join(lines, "\n")
		if err != nil || len(lines) != 4 || strings.Count(all, `"id":null`) != 3 || strings.Count(all, "-32700") != 2 || !strings.Contains(all, `"id":7`) {
			t.Errorf("%s: %v\n%s", name, err, all)
		}
	}
}
