//go:build npm

package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/proxy/operate"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// adminServer is a server whose tools return markup that a page must not interpret.
const adminServer = `
import { createInterface } from "node:readline";
const hostile = "Says it back. </p><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> \u202e";
const echo = { name: "echo", title: "Echo", description: hostile, annotations: { readOnlyHint: true }, inputSchema: { type: "object", required: ["path", "size"], properties: {
  path: { type: "string", description: "A path below the root." }, size: { type: "integer", minimum: 1, description: "Bytes." }, mode: { enum: ["fast", "careful"], default: "fast" },
  dry: { type: "boolean", description: "Only says what would be done." }, deep: { type: "object", description: "Anything else." } } } };
const tools = [echo, { name: "huge", description: "10 MB", inputSchema: { type: "object" } }];
for (let i = 0; i < +process.argv[2]; i++) tools.push({ name: "tool_" + i, description: hostile, inputSchema: { type: "object" } });
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const text = () => params.name === "huge" ? "x".repeat(10 << 20) : line.match(/"arguments":(.*?)(,"_meta"|}$|}})/)?.[1] ?? line;
  const result = { initialize: () => ({ protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "files", version: "1" } }),
    "tools/list": () => ({ tools }), "tools/call": () => ({ content: [{ type: "text", text: line.length > 4000 ? "long" : params.name === "huge" ? text() : line }] }), ping: () => ({}) }[method];
  console.log(JSON.stringify(result ? { jsonrpc: "2.0", id, result: result() } : { jsonrpc: "2.0", id, error: { code: -32601, message: method } }));
});
`

const adminConfig = `name: platform-tools
listen: %s
admin: {keepValues: true}
backends:
  - {name: files, command: %[2]q, args: [server.mjs, "500"]}
  - {name: later, command: %[2]q, args: [server.mjs, "1"], disabled: true}
  - {name: github, command: %[2]q, args: [server.mjs, "12"]}
  - {name: missing, command: /nonexistent/server}
scriptedTools:
  - name: release
    description: Builds a service, asks, and ships it.
    parameters: {type: object, properties: {service: {type: string}}, required: [service]}
    script: |
      def run(args):
          call_tool("files_echo", {"path": args["service"], "size": 1})
          parallel([lambda: call_tool("files_tool_1", {}), lambda: call_tool("github_tool_2", {})])
          a = elicit("Ship " + args["service"] + " to production?", {"type": "object", "properties": {"ship": {"type": "boolean"}, "note": {"type": "string", "description": "goes into the release notes"}}, "required": ["ship"]})
          call_tool("github_echo", {"path": "release", "size": 2})
          return {"shipped": a.action == "accept"}
`

// used is the report of Chromium about the page for operators.
type used struct {
	Requests, Complaints, Policies, Contrast             []string
	Result, Wrong, Answered, RunState, Bare              string
	Light, Dark                                          string
	Live, BareSend                                       bool
	Huge, Tools, Filtered, Images, Steps, Bars, Problems int
	LightWide, DarkWide, NarrowWide                      int
}

// TestTheAdminPage uses the page in Chromium: changes are shown without a reload, a tool is called through its form, a
// run has its steps, questions are answered, no other host is contacted and no security policy violated. Its screenshots go to
// $CI_LOGS; three of them are in docs/ (docs/admin-page.md documents how to update them).
func TestTheAdminPage(t *testing.T) {
	if world.chromium == "" {
		t.Skip("there is no Chromium")
	}
	base, dir := serveAdmin(t)
	shots := dir
	if logs := os.Getenv("CI_LOGS"); logs != "" {
		if shots = filepath.Join(logs, "admin-page"); os.MkdirAll(shots, 0o755) != nil {
			t.Fatal("no folder for pictures")
		}
	}
	cmd := exec.CommandContext(deadline(t), world.npm.Node(), filepath.Join(world.dir, "admin.mjs"), world.chromium, base, shots, filepath.Join(dir, "vmcp.yaml"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var s used
	if err != nil || json.Unmarshal(out, &s) != nil {
		t.Fatalf("admin.mjs: %v\n%s", err, out)
	}
	if len(s.Requests) > 0 || len(s.Complaints) > 0 || len(s.Contrast) > 0 {
		t.Errorf("requests elsewhere %q\ncomplaints %q\ntoo little contrast %q", s.Requests, s.Complaints, s.Contrast)
	}
	for _, policy := range s.Policies {
		if policy != operate.Policy || strings.Contains(policy, "unsafe") {
			t.Errorf("a page has the policy %q", policy)
		}
	}
	if !s.Live || s.Light == s.Dark || s.LightWide > 0 || s.DarkWide > 0 || s.NarrowWide > 0 {
		t.Errorf("not loaded again: %v; light %s, dark %s; wider than the window by %d, %d, %d", s.Live, s.Light, s.Dark, s.LightWide, s.DarkWide, s.NarrowWide)
	}
	for _, want := range []string{`"a <b> \"c\""`, "9007199254740993", "2.50", "true"} {
		if !strings.Contains(s.Result, want) {
			t.Errorf("the tool got %s, want %s in it", s.Result, want)
		}
	}
	if !strings.Contains(s.Wrong, "invalid JSON") || s.Huge < 60_000 || s.Huge > 200_000 {
		t.Errorf("wrong JSON is %q; of 10 MB %d characters are shown", s.Wrong, s.Huge)
	}
	if s.Tools < 500 || s.Filtered != 2 || s.Images > 0 || s.Problems == 0 {
		t.Errorf("%d tools, %d found; %d images; %d problems", s.Tools, s.Filtered, s.Images, s.Problems)
	}
	if !strings.Contains(s.Answered, `"shipped": true`) || s.Steps != 5 || s.Bars != 5 || s.RunState != "done" {
		t.Errorf("answered %s; %d steps with %d bars of a run that is %s", s.Answered, s.Steps, s.Bars, s.RunState)
	}
	if s.Bare != "files_echo" || !s.BareSend {
		t.Errorf("without scripts: %q, the button is disabled: %v", s.Bare, s.BareSend)
	}
}

// serveAdmin serves an endpoint with a page, and returns its address and the folder with its configuration.
func serveAdmin(t *testing.T) (base, dir string) {
	port, err := rig.Port()
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	dir = t.TempDir()
	for name, text := range map[string]string{"server.mjs": adminServer, "vmcp.yaml": fmt.Sprintf(adminConfig, addr, world.npm.Node())} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	serve := exec.Command(program("vmcp"), "serve")
	serve.Dir = dir
	serve.Env = append(os.Environ(), "HOME="+dir)
	log := &strings.Builder{}
	serve.Stderr = log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Signal(os.Interrupt)
		if err := serve.Wait(); err != nil || t.Failed() {
			t.Logf("vmcp serve: %v\n%s", err, tail([]byte(log.String()), 3000))
		}
	})
	err = rig.Poll(deadline(t), "the endpoint at "+addr, func() (bool, error) {
		res, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false, nil // not yet
		}
		return res.StatusCode == http.StatusOK, res.Body.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + addr, dir
}
