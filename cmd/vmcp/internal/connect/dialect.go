package connect

import (
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/config/clients/entry"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// target is what entries say of the endpoint.
type target struct {
	url       string
	guarded   bool   // callers bring a token
	tokenFile string // with it; "" if that is not known
	program   string // this one, for clients that start their servers
	config    string // that those shall serve instead; "" for none
	profile   string // of it
}

// dialect is how a client writes its servers.
type dialect struct {
	shape string
	value func(t target) []byte // of its entry
}

var dialects = map[string]dialect{
	"claude":         {"mcpServers", overHTTP("http", "url", "${VMCP_TOKEN}")},
	"claude-desktop": {"mcpServers", started},
	"cursor":         {"mcpServers", overHTTP("", "url", "${env:VMCP_TOKEN}")},
	"vscode":         {"servers", overHTTP("http", "url", "${env:VMCP_TOKEN}")},
	"windsurf":       {"mcpServers", overHTTP("", "serverUrl", "${env:VMCP_TOKEN}")},
	"gemini":         {"mcpServers", overHTTP("", "httpUrl", "${VMCP_TOKEN}")},
	"zed":            {"context_servers", zed},
	"codex":          {entry.TOML, codex},
	"opencode":       {"mcp", overHTTP("remote", "url", "{env:VMCP_TOKEN}")},
}

// names are the clients in the order in which they are shown.
func names() []string {
	return []string{"claude", "claude-desktop", "cursor", "vscode", "windsurf", "gemini", "zed", "codex", "opencode"}
}

// overHTTP writes entries with a URL, which is under a key of the client's own, and with a type if that
// is not "". The token is in a variable of the client's environment, which it names in its own way.
func overHTTP(kind, key, variable string) func(target) []byte {
	return func(t target) []byte {
		o := new(jsonscan.Object)
		if kind != "" {
			o.Text("type", kind)
		}
		o.Text(key, t.url)
		if t.guarded {
			o.Raw("headers", new(jsonscan.Object).Text("Authorization", "Bearer "+variable).JSON())
		}
		return o.JSON()
	}
}

// zed knows no variables: where a token is asked for, it starts this program, which has it.
func zed(t target) []byte {
	if t.guarded {
		return started(t)
	}
	return overHTTP("", "url", "")(t)
}

func codex(t target) []byte {
	lines := fmt.Sprintf("url = %q\n", t.url)
	if t.guarded {
		lines += "bearer_token_env_var = \"VMCP_TOKEN\"\n"
	}
	return []byte(lines)
}

// started is the entry of a client that starts its servers.
func started(t target) []byte {
	args := []string{"serve", "--stdio", "--url", t.url}
	switch {
	case t.config != "":
		args = []string{"serve", "--stdio", "--config", t.config}
		if t.profile != "" {
			args = append(args, "--profile", t.profile)
		}
	case t.guarded && t.tokenFile != "":
		args = append(args, "--token-file", t.tokenFile)
	}
	list, _ := json.Marshal(args) // texts always can be
	return new(jsonscan.Object).Text("command", t.program).Raw("args", list).JSON()
}

// note is what the client needs beside its entry.
func (t target) note(client string) string {
	starts := client == "claude-desktop" || client == "zed"
	if !t.guarded || t.config != "" && client == "claude-desktop" || starts && t.tokenFile != "" {
		return ""
	}
	return fmt.Sprintf("the endpoint asks for a token: %s needs it as VMCP_TOKEN in its environment", client)
}
