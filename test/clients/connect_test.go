//go:build npm

package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/test/rig"
)

// connected are the clients whose files mcporter reads, by its names for them, with the content of the files before.
var connected = []struct {
	client, reader, file, before string
}{
	{"claude", "claude-code", ".claude.json", `{"numStartups": 3, "mcpServers": {"theirs": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}}`},
	{"claude-desktop", "claude-desktop", ".config/Claude/claude_desktop_config.json", `{"globalShortcut": "Ctrl+Space"}`},
	{"cursor", "cursor", ".cursor/mcp.json", "{\r\n  \"mcpServers\": {\r\n    \"theirs\": {\"url\": \"http://127.0.0.1:1/mcp\"}\r\n  }\r\n}\r\n"},
	{"vscode", "vscode", ".config/Code/User/mcp.json", "{\n\t// of the user\n\t\"servers\": {\n\t\t\"theirs\": {\"type\": \"http\", \"url\": \"http://127.0.0.1:1/mcp\"},\n\t},\n}\n"},
	{"windsurf", "windsurf", ".codeium/windsurf/mcp_config.json", ``},
	{"codex", "codex", ".codex/config.toml", "model = \"gpt-5\" # the model\n\n[mcp_servers.theirs]\nurl = \"http://127.0.0.1:1/mcp\""},
	{"opencode", "opencode", ".config/opencode/opencode.json", "{\n  \"$schema\": \"https://opencode.ai/config.json\", // theirs\n}\n"},
}

// A reader is a home folder with clients' files, which mcporter reads.
type reader struct {
	home, dir string
	env       []string
}

func newReader(t *testing.T) *reader {
	r := &reader{home: t.TempDir(), dir: t.TempDir()}
	r.env = append(os.Environ(), "HOME="+r.home, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=")
	for _, c := range connected {
		path := filepath.Join(r.home, filepath.FromSlash(c.file))
		if c.before != "" {
			write(t, path, c.before)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// vmcp runs a command that has to succeed.
func (r *reader) vmcp(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program("vmcp"), args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("vmcp %v: %v\n%s", args, err, out)
	}
}

// read runs a command of mcporter with the file of one client.
func (r *reader) read(t *testing.T, of string, args ...string) (out string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	mine := filepath.Join(r.dir, of+".json")
	write(t, mine, fmt.Sprintf(`{"mcpServers": {}, "imports": [%q]}`, of))
	if of == "claude-desktop" { // mcporter looks for another name
		theirs := filepath.Join(r.home, ".config", "Claude")
		text, err := os.ReadFile(filepath.Join(theirs, "claude_desktop_config.json"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(theirs, "settings.json"), string(text))
	}
	cmd := exec.CommandContext(ctx, world.npm.Node(), append([]string{world.npm.Path("mcporter/dist/cli.js"), "--config", mine}, args...)...)
	cmd.Dir, cmd.Env = r.dir, r.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("mcporter %v: %w\n%s%s", args, err, &stdout, &stderr)
	}
	return stdout.String(), nil
}

// tools are the tools that mcporter finds behind the entry vmcp of one client.
func (r *reader) tools(t *testing.T, of string) (names []string) {
	t.Helper()
	out, err := r.read(t, of, "list", "vmcp", "--json")
	if err != nil {
		t.Error(err)
		return nil
	}
	var got struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, tool := range got.Tools {
		names = append(names, tool.Name)
	}
	return names
}

const twoTools = `profiles:
  - {name: one, tools: [hello]}
scriptedTools:
  - {name: hello, description: Says hello., script: "def run(params):\n    return \"hello there\"\n"}
  - {name: other, description: Says no., script: "def run(params):\n    return \"no\"\n"}
`

// TestOthersReadWhatConnectWrites: mcporter finds the endpoint by the entry that `vmcp connect`
// has written to the file of each client, and calls a tool; after --undo it finds no entry.
func TestOthersReadWhatConnectWrites(t *testing.T) {
	r := newReader(t)
	file := filepath.Join(r.dir, "vmcp.yaml")
	write(t, file, twoTools)
	var log bytes.Buffer
	p, addr, err := rig.Serve(t.Context(), &log, program("vmcp"), file)
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	defer p.Stop()
	for _, c := range connected {
		t.Run(c.client, func(t *testing.T) {
			r.vmcp(t, "connect", c.client, "--url", "http://"+addr+"/mcp")
			if out, err := r.read(t, c.reader, "call", "vmcp.hello"); err != nil || !strings.Contains(out, "hello there") {
				t.Errorf("a call: %s %v", out, err)
			}
			r.vmcp(t, "connect", c.client, "--url", "http://"+addr+"/mcp", "--profile", "one", "--force")
			if got := r.tools(t, c.reader); len(got) != 1 || got[0] != "hello" {
				t.Errorf("with the profile one there are %v, want hello", got)
			}
			r.vmcp(t, "connect", c.client, "--undo")
			if out, err := r.read(t, c.reader, "call", "vmcp.hello"); err == nil {
				t.Errorf("after --undo it is still called: %s", out)
			}
			now, _ := os.ReadFile(filepath.Join(r.home, filepath.FromSlash(c.file))) // there may be none
			if string(now) != c.before {
				t.Errorf("after --undo the file is\n%s\nwant\n%s", now, c.before)
			}
		})
	}
}

// TestDesktopStartsAProfile: for a client that only starts programs, --config writes an entry that starts a process
// with the profile of --profile.
func TestDesktopStartsAProfile(t *testing.T) {
	r := newReader(t)
	file := filepath.Join(r.dir, "vmcp.yaml")
	write(t, file, "listen: 127.0.0.1:0\n"+twoTools)
	for _, tt := range []struct {
		args []string
		want string
	}{{nil, "hello other"}, {[]string{"--profile", "one"}, "hello"}} {
		r.vmcp(t, append([]string{"connect", "claude-desktop", "--config", file, "--force"}, tt.args...)...)
		if got := strings.Join(r.tools(t, "claude-desktop"), " "); got != tt.want {
			t.Errorf("with %q there are the tools %q, want %q", tt.args, got, tt.want)
		}
		if out, err := r.read(t, "claude-desktop", "call", "vmcp.hello"); err != nil || !strings.Contains(out, "hello there") {
			t.Errorf("with %q a call: %s %v", tt.args, out, err)
		}
	}
}
