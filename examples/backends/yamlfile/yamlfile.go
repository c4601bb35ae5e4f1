// Package yamlfile is an MCP server that reads and changes single values in YAML files
// by path. A change replaces the bytes of that value and nothing else: comments, layout
// and quoting of the rest are kept, and the file is replaced
// atomically.
//
//	go run ./examples/backends/yamlfile/cmd/yamlfile -root .
package yamlfile

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/rootfile"
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// Codes of refusals.
const (
	Unreadable = "unreadable_file" // missing, outside of the root, not a file, too large
	Unwritable = "unwritable_file" // the new content could not be stored; the file is not changed
	Malformed  = "parse_error"     // not YAML, or ambiguous: a duplicate key
	NotFound   = "path_not_found"
	BadPath    = "bad_path" // the path is not written as a path
	BadValue   = "bad_value"
)

// maxFile is the size up to which files are read.
const maxFile = 4 << 20

// Options of a server. Root is required.
type Options struct {
	// Root is the directory of the files.
	Root string
}

// Files serves the YAML files below one directory.
type Files struct {
	root *os.Root
	mu   sync.Mutex // one change at a time; see also lock
}

// New opens the directory. Close the Files when done.
func New(o Options) (*Files, error) {
	root, err := os.OpenRoot(o.Root)
	if err != nil {
		return nil, fmt.Errorf("root: %w", err)
	}
	return &Files{root: root}, nil
}

// Close closes the directory.
func (f *Files) Close() error { return f.root.Close() }

// Main is the command: it parses args, without the program's name, and serves stdio,
// or HTTP with -http, until ctx ends or the client disconnects.
func Main(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("yamlfile", flag.ContinueOnError)
	root := flags.String("root", ".", "directory of the files")
	addr := flags.String("http", "", "serve http://`ADDR`/mcp instead of stdio")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("yamlfile: want flags only, have %q", flags.Arg(0))
	}
	f, err := New(Options{Root: *root})
	if err != nil {
		return fmt.Errorf("yamlfile: %w", err)
	}
	return errors.Join(toolserver.Serve(ctx, f.Server(), *addr), f.Close())
}

// Server returns a new MCP server with the tools of f.
func (f *Files) Server() *mcp.Server {
	no, yes := false, true
	s := mcp.NewServer(&mcp.Implementation{Name: "yamlfile", Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: `Values in YAML files by path, such as server.port, list[2].name or labels["app.kubernetes.io/name"].`,
		Capabilities: &mcp.ServerCapabilities{},
	})
	toolserver.Add(s, &mcp.Tool{
		Name: "get", Title: "Get a value of a YAML file",
		Description: "Get the value at a path of a YAML file, as JSON. Aliases and merge keys are followed.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
	}, f.get)
	toolserver.Add(s, &mcp.Tool{
		Name: "set", Title: "Set a value of a YAML file",
		Description: "Set the value at a path of a YAML file. Comments and layout of the rest stay. With create, a missing key is added, and so is the element after the last one of a list.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
	}, f.set)
	return s
}

type getIn struct {
	File     string `json:"file" jsonschema:"path of the file relative to the root"`
	Path     string `json:"path" jsonschema:"path of the value, such as server.port or list[2].name; empty: the whole document"`
	Document int    `json:"document,omitempty" jsonschema:"which document of a file with several, from 0"`
}

type getOut struct {
	File  string          `json:"file"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
	Line  int             `json:"line" jsonschema:"where the value starts"`
}

func (f *Files) get(_ context.Context, in getIn) (*getOut, error) {
	steps, err := parsePath(in.Path)
	if err != nil {
		return nil, err
	}
	s, err := f.read(in.File, in.Document)
	if err != nil {
		return nil, err
	}
	p, err := s.find(steps, follow)
	if err == nil && p.node == nil {
		err = p.missing()
	}
	if err != nil {
		return nil, at(in.File, err)
	}
	value, err := appendJSON(nil, p.node)
	if err != nil {
		return nil, at(in.File, err)
	}
	return &getOut{File: in.File, Path: in.Path, Value: value, Line: p.node.Line}, nil
}

type setIn struct {
	File     string          `json:"file" jsonschema:"path of the file relative to the root"`
	Path     string          `json:"path" jsonschema:"path of the value, such as server.port or list[2].name"`
	Value    json.RawMessage `json:"value" jsonschema:"the new value: any JSON"`
	Create   bool            `json:"create,omitempty" jsonschema:"add what is missing on the path"`
	Document int             `json:"document,omitempty" jsonschema:"which document of a file with several, from 0"`
}

type setOut struct {
	File     string          `json:"file"`
	Path     string          `json:"path"`
	Previous json.RawMessage `json:"previous,omitempty" jsonschema:"the value before; absent when there was none"`
	Created  bool            `json:"created"`
	Changed  bool            `json:"changed" jsonschema:"false when the file already said so and was left alone"`
}

func (f *Files) set(_ context.Context, in setIn) (*setOut, error) {
	steps, err := parsePath(in.Path)
	if err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		return nil, toolserver.Errorf(BadPath, "path: want a key or an index, have none")
	}
	value, err := nodeOf(in.Value)
	if err != nil {
		return nil, toolserver.Errorf(BadValue, "value: %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	unlock, err := lock(f.root)
	if err != nil {
		return nil, toolserver.Errorf(Unwritable, "%s: lock: %v", in.File, err)
	}
	defer unlock()
	return f.change(in, steps, value)
}

// change is the part of set that must not run concurrently.
func (f *Files) change(in setIn, steps []step, value *node) (*setOut, error) {
	s, err := f.read(in.File, in.Document)
	if err != nil {
		return nil, err
	}
	out := &setOut{File: in.File, Path: in.Path}
	p, err := s.find(steps, stay)
	if err != nil {
		return nil, at(in.File, err)
	}
	if p.node == nil && !in.Create {
		return nil, at(in.File, p.missing())
	}
	out.Created = p.node == nil
	if p.node != nil {
		if out.Previous, err = appendJSON(nil, p.node); err != nil {
			return nil, at(in.File, err)
		}
	}
	data, err := s.edit(p, value)
	if err != nil {
		return nil, at(in.File, err)
	}
	if out.Changed = string(data) != string(s.text); !out.Changed {
		return out, nil
	}
	if err := rootfile.Replace(f.root, filepath.FromSlash(in.File), data); err != nil {
		return nil, toolserver.Errorf(Unwritable, "%s: %v", in.File, rootfile.Reason(err))
	}
	return out, nil
}

func (f *Files) read(name string, document int) (*source, error) {
	data, err := rootfile.Read(f.root, filepath.FromSlash(name), maxFile)
	if err != nil {
		return nil, toolserver.Errorf(Unreadable, "%s: %v", name, rootfile.Reason(err))
	}
	s, err := parse(data, document)
	if err != nil {
		return nil, at(name, err)
	}
	return s, nil
}

// at adds the file's name to a refusal.
func at(file string, err error) error {
	var e *toolserver.Error
	if errors.As(err, &e) {
		return toolserver.Errorf(e.Code, "%s: %s", file, e.Message)
	}
	return fmt.Errorf("%s: %w", file, err)
}
