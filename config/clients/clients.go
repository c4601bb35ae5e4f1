// Package clients reads MCP servers from the configuration files of MCP clients: six shapes in JSON
// with comments, TOML or YAML, detected from the content. It reads bytes and returns data; it opens no
// file and reads no environment variable.
//
//	f, err := clients.Read("mcp.json", data, clients.Options{Home: home, Workspace: folder})
//	f.Servers[0].Command // npx
//
// Texts are returned in the syntax of vmcp.yaml: ${NAME} and ${NAME:-default} are variables,
// and $${ is a literal ${.
package clients

import (
	"bytes"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// MaxFile bounds a client's configuration, in bytes. Some clients keep their history in it.
const MaxFile = 16 << 20

// Options are the values of variables for folders, and the client.
type Options struct {
	// Home is the absolute path of the home folder, for ~/ and ${userHome}.
	Home string
	// Workspace is the absolute path for ${workspaceFolder}, and the project whose servers are
	// read if a file has servers per project.
	Workspace string
	// Client is the client that the file belongs to, such as gemini, or "" if it is not known: the
	// dialect cannot always be detected from the file.
	Client string
}

// File is the MCP servers of a client's configuration.
type File struct {
	// Shape is the member that the servers are under: mcpServers, servers, context_servers,
	// mcp_servers, mcp or extensions.
	Shape string
	// Servers are in the order of the file, including skipped ones.
	Servers []Server
	// Variables are the environment variables that the servers' texts refer to, by name.
	Variables []Variable
}

// Server is one MCP server of a client: a command to start, or a URL.
type Server struct {
	// Name is the name for the backend: letters, digits, - and _, at most 63.
	Name string
	// Key is the server's path in the file, such as mcpServers["my server"].
	Key string
	// Pos is the position of its name.
	Pos diag.Pos
	// Skipped is why it cannot be a backend. Only Name, Key, Pos, Own and Command are set then.
	Skipped string
	// Ignored reports that nothing is lost by skipping it: it is vmcp itself, a part of the client, or
	// a later entry has the same name.
	Ignored bool
	// Own is the URL of an entry for vmcp itself; "" for other entries and for one that starts vmcp.
	Own string `json:",omitempty"`

	URL       string
	Transport string // streamable-http, sse, or "" if not in the file
	Headers   map[string]string

	Command string
	Args    []string
	Env     map[string]string
	EnvFile string // a file of NAME=value lines; Env takes precedence
	Cwd     string

	// Timeout bounds a call; 0 if not in the file.
	Timeout time.Duration
	// Tools are globs of the tools to keep; a glob that begins with ! excludes tools.
	Tools []string
	// Disabled reports that the client does not start it.
	Disabled bool
	// Notes are about settings of the server that are not supported.
	Notes []string
}

// Variable is a variable of the environment that servers need.
type Variable struct {
	// Name is the NAME in ${NAME}.
	Name string
	// From is the reference in the client's file, such as ${input:token}.
	From string
	// Default is used if the variable is not set and HasDefault is true.
	Default    string
	HasDefault bool
	// Secret reports that the client hides its input.
	Secret bool
	// Description is the client's prompt for it.
	Description string
	// UsedBy are the names of the servers that refer to it.
	UsedBy []string
}

// Read reads a client's configuration. The error is diag.Problems, with positions, if the file
// cannot be used at all; the problem of a single server is in its Skipped.
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

// Is reports whether a file is a client's configuration and not a vmcp.yaml: it has one of the six
// shapes, or it does not parse but contains the name of one, so that Read reports its problems.
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

// shape is one of the six forms of a list of servers.
type shape struct {
	key  string
	what string // its name in messages
}

// shapes are tried in this order; in a file with two of them, the first one is used.
var shapes = []shape{
	{"mcpServers", "Claude, Cursor, Windsurf, Gemini, Cline and others"},
	{"servers", "VS Code"},
	{"context_servers", "Zed"},
	{"mcp_servers", "Codex"},
	{"mcp", "OpenCode"},
	{"extensions", "Goose"},
}

// shapeOf finds the member with the servers. An empty object counts as well, and so do settings per
// project, which only ~/.claude.json has.
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

// holdsServers reports whether a member is a map of servers, not another setting of the same name.
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
