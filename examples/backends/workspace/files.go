package workspace

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/rootfile"
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// maxEntries bounds the entries of one list_files.
const maxEntries = 1000

func (w *Workspace) addFileTools(s *mcp.Server) {
	toolserver.Add(s, &mcp.Tool{
		Name: "read_file", Title: "Read a file",
		Description: "Read a file of the workspace. Text comes as text, anything else as base64. Read a file over the limit in pieces with offset and length.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: hint(false)},
	}, w.readFile)
	toolserver.Add(s, &mcp.Tool{
		Name: "write_file", Title: "Write a file",
		Description: "Create or replace a file of the workspace, all or nothing. Missing directories are made.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: hint(true), IdempotentHint: true, OpenWorldHint: hint(false)},
	}, w.writeFile)
	toolserver.Add(s, &mcp.Tool{
		Name: "list_files", Title: "List files",
		Description: "List a directory of the workspace, sorted by path. Symbolic links are listed, not followed.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: hint(false)},
	}, w.listFiles)
}

type readFileIn struct {
	Path   string `json:"path" jsonschema:"path relative to the workspace"`
	Offset int64  `json:"offset,omitempty" jsonschema:"first byte to read"`
	Length int64  `json:"length,omitempty" jsonschema:"number of bytes to read; default: all"`
}

type readFileOut struct {
	Path   string `json:"path"`
	Size   int64  `json:"size" jsonschema:"size of the whole file in bytes"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length" jsonschema:"number of bytes in this result"`
	Text   string `json:"text,omitempty" jsonschema:"the content when it is UTF-8"`
	Base64 string `json:"base64,omitempty" jsonschema:"the content when it is not UTF-8"`
}

func (w *Workspace) readFile(_ context.Context, in readFileIn) (*readFileOut, error) {
	f, info, err := rootfile.Open(w.root, filepath.FromSlash(in.Path))
	if err != nil {
		return nil, fileError("read", in.Path, err)
	}
	defer f.Close()
	length, err := w.span(in, info.Size())
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, in.Offset, length))
	if err != nil {
		return nil, fileError("read", in.Path, err)
	}
	out := &readFileOut{Path: in.Path, Size: info.Size(), Offset: in.Offset, Length: int64(len(data))}
	out.Text, out.Base64 = textOrBase64(data)
	return out, nil
}

// span returns how many bytes to read.
func (w *Workspace) span(in readFileIn, size int64) (int64, error) {
	if in.Offset < 0 || in.Length < 0 {
		return 0, toolserver.Errorf("bad_arguments", "read %s: offset and length: want 0 or more, have %d and %d", in.Path, in.Offset, in.Length)
	}
	length := in.Length
	if length == 0 {
		length = max(size-in.Offset, 0)
	}
	if length > w.o.MaxFile {
		return 0, toolserver.Errorf("too_large", "read %s: %d bytes are over the limit of %d: read in pieces with offset and length", in.Path, length, w.o.MaxFile)
	}
	return length, nil
}

func textOrBase64(data []byte) (text, encoded string) {
	if utf8.Valid(data) {
		return string(data), ""
	}
	return "", base64.StdEncoding.EncodeToString(data)
}

type writeFileIn struct {
	Path   string `json:"path" jsonschema:"path relative to the workspace"`
	Text   string `json:"text,omitempty" jsonschema:"the new content"`
	Base64 string `json:"base64,omitempty" jsonschema:"the new content when it is not text"`
}

type writeFileOut struct {
	Path    string `json:"path"`
	Size    int    `json:"size" jsonschema:"bytes written"`
	Created bool   `json:"created" jsonschema:"whether there was no such file before"`
}

func (w *Workspace) writeFile(_ context.Context, in writeFileIn) (*writeFileOut, error) {
	data, err := content(in)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > w.o.MaxFile {
		return nil, toolserver.Errorf("too_large", "write %s: %d bytes are over the limit of %d", in.Path, len(data), w.o.MaxFile)
	}
	name := filepath.FromSlash(in.Path)
	info, err := w.root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, toolserver.Errorf("bad_path", "write %s: is a %s", in.Path, rootfile.Kind(info.Mode()))
	}
	created := errors.Is(err, fs.ErrNotExist)
	if created {
		if err := w.root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, fileError("write", in.Path, err)
		}
	}
	if err := rootfile.Replace(w.root, name, data); err != nil {
		return nil, fileError("write", in.Path, err)
	}
	return &writeFileOut{Path: in.Path, Size: len(data), Created: created}, nil
}

func content(in writeFileIn) ([]byte, error) {
	if in.Base64 == "" {
		return []byte(in.Text), nil
	}
	if in.Text != "" {
		return nil, toolserver.Errorf("bad_arguments", "write %s: want one of text and base64, have both", in.Path)
	}
	data, err := base64.StdEncoding.DecodeString(in.Base64)
	if err != nil {
		return nil, toolserver.Errorf("bad_arguments", "write %s: base64: %v", in.Path, err)
	}
	return data, nil
}

type listFilesIn struct {
	Path      string `json:"path,omitempty" jsonschema:"directory relative to the workspace; default: the workspace itself"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"list the directories below as well"`
	Glob      string `json:"glob,omitempty" jsonschema:"list only entries whose name matches, such as *.yaml"`
}

type listFilesOut struct {
	Entries   []entry `json:"entries"`
	Truncated bool    `json:"truncated" jsonschema:"whether there are more entries than listed"`
}

type entry struct {
	Path     string    `json:"path"`
	Type     string    `json:"type" jsonschema:"file, directory, link or special"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

func (w *Workspace) listFiles(ctx context.Context, in listFilesIn) (*listFilesOut, error) {
	if _, err := path.Match(in.Glob, ""); err != nil {
		return nil, toolserver.Errorf("bad_arguments", "list: glob %q: want a pattern such as *.yaml", in.Glob)
	}
	dir := path.Clean(filepath.ToSlash(in.Path))
	if _, err := w.root.Stat(filepath.FromSlash(dir)); err != nil {
		return nil, fileError("list", in.Path, err)
	}
	l := &listing{ctx: ctx, dir: dir, in: in, out: listFilesOut{Entries: []entry{}}}
	if err := fs.WalkDir(w.root.FS(), dir, l.visit); err != nil {
		return nil, fileError("list", in.Path, err)
	}
	return &l.out, nil
}

// listing collects the entries of one list_files.
type listing struct {
	ctx context.Context
	dir string
	in  listFilesIn
	out listFilesOut
}

func (l *listing) visit(name string, d fs.DirEntry, err error) error {
	switch {
	case l.ctx.Err() != nil:
		return l.ctx.Err()
	case name == l.dir:
		if err == nil && !d.IsDir() {
			return toolserver.Errorf("bad_path", "list %s: want a directory, have a file", name)
		}
		return err
	case err != nil: // the entries of an unreadable directory are left out
		return nil
	}
	if err := l.add(name, d); err != nil {
		return err
	}
	if d.IsDir() && !l.in.Recursive {
		return fs.SkipDir
	}
	return nil
}

func (l *listing) add(name string, d fs.DirEntry) error {
	if match, _ := path.Match(l.in.Glob, d.Name()); l.in.Glob != "" && !match {
		return nil
	}
	if len(l.out.Entries) == maxEntries {
		l.out.Truncated = true
		return fs.SkipAll
	}
	info, err := d.Info()
	if err != nil { // removed since the directory was read
		return nil
	}
	l.out.Entries = append(l.out.Entries, entry{
		Path: name, Type: rootfile.Kind(info.Mode()), Size: info.Size(), Modified: info.ModTime().UTC(),
	})
	return nil
}

func fileError(verb, name string, err error) error {
	var refusal *toolserver.Error
	if errors.As(err, &refusal) {
		return err
	}
	code := "bad_path"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = "not_found"
	case errors.Is(err, fs.ErrPermission):
		code = "denied"
	}
	return toolserver.Errorf(code, "%s %s: %v", verb, name, rootfile.Reason(err))
}
