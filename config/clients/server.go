package clients

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// reader translates the servers of one file.
type reader struct {
	*document
	Options
	shape     *shape
	root      *node
	inputs    map[string]*node // VS Code's, by id
	variables map[string]*Variable
}

func (r *reader) file() *File {
	r.readInputs()
	f := &File{Shape: r.shape.key}
	r.servers(f, r.shape.key, r.root.get(r.shape.key))
	if r.Workspace != "" {
		project := r.root.get("projects").get(r.Workspace)
		r.servers(f, "projects["+strconv.Quote(r.Workspace)+"].mcpServers", project.get("mcpServers"))
	}
	for _, name := range slices.Sorted(maps.Keys(r.variables)) {
		f.Variables = append(f.Variables, *r.variables[name])
	}
	return f
}

func (r *reader) servers(f *File, at string, all *node) {
	if all == nil || all.kind != object {
		return
	}
	for i, m := range all.members {
		s := Server{Name: Name(m.name), Key: at + key(m.name), Pos: diag.Pos{File: r.name, Line: m.line, Column: m.column}}
		t := &translation{reader: r, server: &s, from: m.value}
		switch {
		case laterNamed(all.members[i+1:], m.name):
			s.Skipped, s.Ignored = "the file has another server of this name further down, which is the one that counts", true
		case s.Name == "":
			s.Skipped = "its name has no letter and no digit"
		case m.value.kind != object:
			s.Skipped = "want an object with a command or a URL"
		default:
			t.translate(m.name)
		}
		if s.Skipped == "" {
			t.keepVariables()
		} else {
			s = Server{Name: s.Name, Key: s.Key, Pos: s.Pos, Skipped: s.Skipped, Ignored: s.Ignored, Own: s.Own, Command: s.Command}
		}
		f.Servers = append(f.Servers, s)
	}
}

func laterNamed(rest []member, name string) bool {
	return len(rest) < maxServers && slices.ContainsFunc(rest, func(m member) bool { return m.name == name })
}

// maxServers bounds the servers of a file: they are compared pairwise, and an import writes a backend for each.
const maxServers = 1_000

// key formats a name as a step of a path.
func key(name string) string {
	if name != "" && Name(name) == name {
		return "." + name
	}
	return "[" + strconv.Quote(name) + "]"
}

// Name converts the name of a server to the name of a backend: every run of other characters than
// letters, digits, - and _ becomes one -, and the ends are trimmed. The result may be empty.
func Name(name string) string {
	var b strings.Builder
	gap := false
	for _, c := range name {
		if c < 0x80 && (c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') {
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(c)
			continue
		}
		gap = true
	}
	out := strings.Trim(b.String(), "-_")
	if len(out) > 63 {
		out = strings.TrimRight(out[:63], "-_")
	}
	return out
}

// translation is one server while it is read.
type translation struct {
	*reader
	server *Server
	from   *node
	used   []Variable
}

func (t *translation) skip(format string, args ...any) {
	if t.server.Skipped == "" {
		t.server.Skipped = fmt.Sprintf(format, args...)
	}
}

func (t *translation) note(format string, args ...any) {
	t.server.Notes = append(t.server.Notes, fmt.Sprintf(format, args...))
}

func (t *translation) translate(name string) {
	if t.shape.key == "extensions" && slices.Contains([]string{"builtin", "platform", "frontend", "inline_python"}, t.text("type")) {
		t.server.Ignored = true
		t.skip("it is part of the client: its type is %s", t.text("type"))
		return
	}
	t.readTransport()
	t.readCommand()
	t.readAddress()
	t.readEnvironment()
	t.readRules()
	if t.server.Skipped != "" {
		return
	}
	switch s := t.server; {
	case s.Command == "" && s.URL == "":
		t.skip("it has neither a command nor a URL")
	case s.Command != "" && s.URL != "":
		t.skip("it has both a command and a URL; want one of them")
	case t.isOwn(name):
		s.Ignored, s.Own = true, s.URL
		t.skip("it is vmcp itself")
	case s.Command != "" && s.Transport != "":
		t.skip("its type is for a URL, and it has a command")
	}
}

// transports maps the clients' names of transports to ours.
var transports = map[string]string{
	"": "", "stdio": "", "local": "", "remote": "",
	"http": "streamable-http", "streamable-http": "streamable-http", "streamableHttp": "streamable-http", "streamable_http": "streamable-http",
	"sse": "sse",
}

func (t *translation) readTransport() {
	word := t.text("type")
	if word == "" {
		word = t.text("transport")
	}
	transport, ok := transports[word]
	if !ok {
		t.skip("its type is %q; want stdio, http or sse", word)
	}
	t.server.Transport = transport
}

// readAddress reads the URL and the headers. Windsurf and Gemini have other names for the URL;
// Gemini's url is an SSE endpoint.
func (t *translation) readAddress() {
	s := t.server
	for _, word := range []struct{ name, transport string }{{"httpUrl", "streamable-http"}, {"url", ""}, {"serverUrl", ""}, {"uri", ""}} {
		address := t.text(word.name)
		if address == "" || s.URL != "" {
			continue
		}
		s.URL = t.expand(word.name, address)
		if s.Transport == "" {
			s.Transport = word.transport
		}
		if word.name == "url" && s.Transport == "" && t.isGemini() {
			s.Transport = "sse"
		}
	}
	headers := map[string]string{}
	for _, name := range []string{"headers", "http_headers"} {
		t.texts(name, headers)
	}
	for _, m := range t.object("env_http_headers") {
		headers[m.name] = t.variable(m.value.text, "", nil)
	}
	if name := t.text("bearer_token_env_var"); name != "" {
		headers["Authorization"] = "Bearer " + t.variable(name, "", nil)
	}
	if s.URL == "" {
		if len(headers) > 0 && s.Command != "" {
			t.note("headers mean nothing to a command")
		}
		return
	}
	if len(headers) > 0 {
		s.Headers = headers
	}
}

func (t *translation) readEnvironment() {
	s, env := t.server, map[string]string{}
	if s.Command == "" {
		return
	}
	for _, name := range []string{"env", "envs", "environment"} {
		t.texts(name, env)
	}
	for _, item := range t.list("env_vars") {
		if item.kind == text {
			env[item.text] = t.variable(item.text, "", new(string))
		}
	}
	for _, item := range t.list("env_keys") { // Goose keeps their values in the key ring of the system
		if item.kind == text {
			env[item.text] = t.variable(item.text, "", nil)
		}
	}
	maps.Copy(env, s.Env) // variables that the command line sets
	if len(env) > 0 {
		s.Env = env
	}
	if name := t.text("envFile"); name != "" {
		s.EnvFile = t.folder("envFile", name)
	}
	if cwd := t.text("cwd"); cwd != "" {
		s.Cwd = t.folder("cwd", cwd)
	}
}

// readRules reads the filter of tools, the timeout, and whether the server is enabled.
func (t *translation) readRules() {
	s := t.server
	s.Disabled = t.flag("disabled") || t.has("enabled") && !t.flag("enabled")
	for _, name := range []string{"includeTools", "enabled_tools", "available_tools"} {
		for _, item := range t.list(name) {
			if item.kind == text && item.text != "" {
				s.Tools = append(s.Tools, item.text)
			}
		}
	}
	for _, name := range []string{"excludeTools", "disabled_tools", "disabledTools"} {
		for _, item := range t.list(name) {
			if item.kind == text && item.text != "" {
				s.Tools = append(s.Tools, "!"+item.text)
			}
		}
	}
	t.readTimeout()
	for _, name := range []string{"autoApprove", "alwaysAllow", "trust"} {
		if t.has(name) {
			t.note("%s is not carried: approving calls is the client's business", name)
		}
	}
	for _, name := range []string{"startup_timeout_sec", "startup_timeout_ms"} {
		if t.has(name) {
			t.note("%s is not carried: operational.startup.wait is how long requests wait for backends that are connecting", name)
		}
	}
	if t.has("oauth") || t.has("auth") {
		t.note("the client's login is not carried: see outgoingAuth")
	}
}

// readTimeout reads the timeout of a call. Gemini has milliseconds, Codex, Cline and Goose seconds;
// if the client is not known, values from 1000 on are milliseconds.
func (t *translation) readTimeout() {
	name := "timeout"
	if t.has("tool_timeout_sec") {
		name = "tool_timeout_sec"
	}
	n := t.from.get(name)
	if n == nil || n.kind != number {
		return
	}
	if t.shape.key == "mcp" { // OpenCode's timeout is for listing tools
		t.note("timeout is not carried: it is not that of a call")
		return
	}
	value, err := strconv.ParseFloat(n.text, 64)
	if err != nil || value <= 0 || math.IsInf(value, 0) || value > 1e9 {
		t.note("%s is %s, which is no time; it is left out", name, n.text)
		return
	}
	unit := time.Second
	seconds := name == "tool_timeout_sec" || t.shape.key == "extensions"
	if !seconds && (t.isGemini() || value >= 1000) {
		unit = time.Millisecond
	}
	t.server.Timeout = time.Duration(value * float64(unit)).Round(time.Millisecond)
}

// isGemini reports whether a server is in Gemini's dialect of mcpServers.
func (t *translation) isGemini() bool {
	if t.Client != "" || t.shape.key != "mcpServers" {
		return t.Client == "gemini"
	}
	for _, m := range t.root.get("mcpServers").members {
		for _, name := range []string{"httpUrl", "includeTools", "excludeTools", "trust"} {
			if m.value.get(name) != nil {
				return true
			}
		}
	}
	return false
}

// isOwn reports whether an entry is one that vmcp connect writes, or one that starts vmcp.
func (t *translation) isOwn(name string) bool {
	s := t.server
	if s.Command != "" {
		program := strings.TrimSuffix(path.Base(strings.ReplaceAll(s.Command, `\`, "/")), ".exe")
		return program == "vmcp"
	}
	if name != "vmcp" {
		return false
	}
	rest := s.URL
	for _, scheme := range []string{"http://", "https://"} {
		rest = strings.TrimPrefix(rest, scheme)
	}
	host, where, _ := strings.Cut(rest, "/")
	loopback := strings.HasPrefix(host, "127.") || strings.HasPrefix(host, "localhost") || strings.HasPrefix(host, "[::1]")
	return loopback && (where == "mcp" || strings.HasPrefix(where, "mcp/"))
}

// text returns a member that is a string; "" if there is none.
func (t *translation) text(name string) string {
	if n := t.from.get(name); n != nil && n.kind == text {
		return n.text
	}
	return ""
}

func (t *translation) has(name string) bool {
	n := t.from.get(name)
	return n != nil && n.kind != null
}

func (t *translation) flag(name string) bool {
	n := t.from.get(name)
	return n != nil && n.kind == boolean && n.text == "true"
}

func (t *translation) list(name string) []*node {
	if n := t.from.get(name); n != nil && n.kind == list {
		return n.items
	}
	return nil
}

func (t *translation) object(name string) []member {
	if n := t.from.get(name); n != nil && n.kind == object {
		return n.members
	}
	return nil
}

// texts adds the members of an object to a map. Numbers and booleans become strings, as in the
// clients; null members are left out.
func (t *translation) texts(name string, into map[string]string) {
	for _, m := range t.object(name) {
		switch m.value.kind {
		case text:
			into[m.name] = t.expandEnv(name+"."+m.name, m.value.text)
		case number, boolean:
			into[m.name] = m.value.text
		case null:
		default:
			t.skip("%s.%s: want a string", name, m.name)
		}
	}
}
