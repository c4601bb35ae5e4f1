// Package clients reads the MCP servers that people already have from the configurations of
// their clients: six shapes of JSON with comments, TOML and YAML, told apart by what is in
// them. It reads bytes and returns data; it opens no file and looks at no environment.
//
//	f, err := clients.Read("mcp.json", data, clients.Options{Home: home, Workspace: folder})
//	f.Servers[0].Command // npx
//
// Texts come back in the language of vmcp.yaml: ${NAME} and ${NAME:-default} are variables,
// and $${ stands for the characters ${.
package clients

import (
	"bytes"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// MaxFile bounds a client's configuration, in bytes. Some clients keep their history in it.
const MaxFile = 16 << 20

// Options say what the variables for folders stand for.
type Options struct {
	// Home is the absolute path of the home folder, for ~/ and ${userHome}.
	Home string
	// Workspace is the absolute path that ${workspaceFolder} stands for, and the project
	// whose servers are read where a file has servers for each project.
	Workspace string
	// Client is the client whose file it is, such as gemini, if that is known: its dialect
	// cannot always be seen in the file.
	Client string
}

// File is what a client's configuration says about MCP servers.
type File struct {
	// Shape is the member that the servers are under: mcpServers, servers, context_servers,
	// mcp_servers, mcp or extensions.
	Shape string
	// Servers are in the order of the file, those that cannot be carried among them.
	Servers []Server
	// Variables are what the servers' texts need from the environment, by name.
	Variables []Variable
}

// Server is one MCP server of a client: a command to start, or a URL.
type Server struct {
	// Name is the name that a backend can have: letters, digits, - and _, at most 63.
	Name string
	// Key is the server's path in the file, such as mcpServers["my server"].
	Key string
	// Pos is where its name stands.
	Pos diag.Pos
	// Skipped is why it is no backend. Nothing but Name, Key, Pos and Own counts then.
	Skipped string
	// Ignored is that nothing is lost by skipping it: it is vmcp itself, a part of the client, or
	// has a namesake further down.
	Ignored bool
	// Own is the URL of an entry that is vmcp itself; "" for another, and for one that starts it.
	Own string `json:",omitempty"`

	URL       string
	Transport string // streamable-http, sse, or "" when the file does not say
	Headers   map[string]string

	Command string
	Args    []string
	Env     map[string]string
	EnvFile string // a file of NAME=value lines, to be put below Env
	Cwd     string

	// Timeout bounds a call; 0 when the file does not say.
	Timeout time.Duration
	// Tools are globs of the tools to keep; those that begin with ! take tools away.
	Tools []string
	// Disabled is that the client does not start it.
	Disabled bool
	// Notes are what the file says of the server that is not carried, and why.
	Notes []string
}

// Variable is a variable of the environment that servers need.
type Variable struct {
	// Name is as it stands in ${NAME}.
	Name string
	// From is how the client's file names it, such as ${input:token}.
	From string
	// Default is used when it is not set, if HasDefault.
	Default    string
	HasDefault bool
	// Secret is that the client hides it while it is typed in.
	Secret bool
	// Description is what the client asks for it with.
	Description string
	// UsedBy are the names of the servers that need it.
	UsedBy []string
}

// Read reads a client's configuration. The error is diag.Problems, with the place of what is
// wrong, when nothing of the file can be used; what is wrong with one server is in Skipped.
func Read(filename string, data []byte, o Options) (*File, error) {
	d := &document{name: diag.File(filename)}
	if len(data) > MaxFile {
		return nil, d.problem(1, 1, "the file has %d bytes; want at most %d", len(data), MaxFile)
	}
	root, err := d.parse(data)
	if err != nil {
		return nil, err
	}
	s := shapeOf(root)
	if s == nil {
		return nil, d.unknown(root)
	}
	if all := root.get(s.key); all != nil && len(all.members) > maxServers {
		m := all.members[maxServers]
		return nil, d.problem(m.line, m.column, "%s: the file has %d servers; want at most %d: take those that are needed into a file of their own", s.key, len(all.members), maxServers)
	}
	r := &reader{document: d, Options: o, shape: s, root: root, variables: map[string]*Variable{}}
	return r.file(), nil
}

// Is says whether a file is a client's configuration and no vmcp.yaml: it has one of the six
// shapes, or it does not parse and names one of them, so that Read says what is wrong with it.
func Is(data []byte) bool {
	d := &document{}
	root, err := d.parse(data)
	if err != nil {
		return namesShape(data)
	}
	return root.get("backends") == nil && shapeOf(root) != nil
}

func namesShape(data []byte) bool {
	for _, s := range shapes {
		if bytes.Contains(data, []byte(`"`+s.key+`"`)) || bytes.Contains(data, []byte("["+s.key+".")) {
			return true
		}
	}
	return false
}

// shape is one of the six ways to write servers down.
type shape struct {
	key  string
	what string // that a message calls it
}

// shapes are looked for in this order, which settles it for a file with two of them.
var shapes = []shape{
	{"mcpServers", "Claude, Cursor, Windsurf, Gemini, Cline and others"},
	{"servers", "VS Code"},
	{"context_servers", "Zed"},
	{"mcp_servers", "Codex"},
	{"mcp", "OpenCode"},
	{"extensions", "Goose"},
}

// shapeOf finds the member with the servers. An object that says so of itself counts, also an
// empty one; and settings of projects, which only ~/.claude.json has.
func shapeOf(root *node) *shape {
	for i := range shapes {
		if n := root.get(shapes[i].key); n != nil && n.kind == object && holdsServers(shapes[i].key, n) {
			return &shapes[i]
		}
	}
	if projects := root.get("projects"); projects != nil && projects.kind == object {
		return &shapes[0]
	}
	return nil
}

// holdsServers tells a map of servers from other settings of the same name.
func holdsServers(key string, n *node) bool {
	if key == "mcpServers" || key == "context_servers" || key == "mcp_servers" {
		return true
	}
	for _, m := range n.members {
		if m.value.kind == object {
			return true
		}
	}
	return len(n.members) == 0
}

func (d *document) unknown(root *node) error {
	var keys []string
	for _, s := range shapes {
		keys = append(keys, s.key)
	}
	line, column := 1, 1
	hint := ""
	for _, m := range root.members {
		if near := nearest(m.name, keys); near != "" {
			line, column, hint = m.line, m.column, "; did you mean "+near+"?"
			break
		}
	}
	return d.problem(line, column, "no MCP servers: want an object under one of %s%s", strings.Join(keys, ", "), hint)
}
