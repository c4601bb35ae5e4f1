package workspace

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestFilesComeBackAsWritten(t *testing.T) {
	c := start(t, Options{})
	if got := c.ok("write_file", args{"path": "a/b/note.txt", "text": "grüße\n"}); got["created"] != true {
		t.Errorf("write_file of a new file: got %v, want created", got)
	}
	if got := c.ok("read_file", args{"path": "a/b/note.txt"})["text"]; got != "grüße\n" {
		t.Errorf("read_file: got %q", got)
	}
	binary := base64.StdEncoding.EncodeToString([]byte{0, 0xff, 0xfe})
	c.ok("write_file", args{"path": "bin", "base64": binary})
	if got := c.ok("read_file", args{"path": "bin"})["base64"]; got != binary {
		t.Errorf("read_file of bytes that are not UTF-8: got %v, want base64 %s", got, binary)
	}
}

// Every way out of the root that a path or a link can take, for reading and for writing.
func TestPathsCannotLeaveTheRoot(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("keep me"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := start(t, Options{})
	link := func(name, target string) {
		if err := os.Symlink(target, filepath.Join(c.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("file", secret)
	link("dir", outside)
	link("up", "../"+filepath.Base(outside))
	link("chain", "dir")
	for _, path := range []string{
		"../" + filepath.Base(outside) + "/secret", secret, "/etc/passwd", "x/../../etc/passwd",
		"file", "dir/secret", "up/secret", "chain/secret", "",
	} {
		for _, tool := range []string{"read_file", "write_file"} {
			r := c.call(tool, args{"path": path})
			if !r.IsError {
				t.Errorf("%s %q: got %s, want it refused", tool, path, text(r))
			}
		}
	}
	for _, path := range []string{"..", outside, "dir", "up", "chain"} {
		if r := c.call("list_files", args{"path": path}); !r.IsError {
			t.Errorf("list_files %q: got %s, want it refused", path, text(r))
		}
	}
	if got, _ := os.ReadFile(secret); string(got) != "keep me" {
		t.Errorf("the file outside: got %q, want it untouched", got)
	}
}

// A recursive listing shows links, but nothing of what is behind them.
func TestListDoesNotFollowLinks(t *testing.T) {
	c := start(t, Options{})
	c.ok("write_file", args{"path": "sub/in.txt", "text": "x"})
	c.ok("write_file", args{"path": "in.yaml", "text": "x"})
	if err := os.Symlink("/etc", filepath.Join(c.root, "etc")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args args
		want string
	}{
		{"one level", args{}, "etc:link in.yaml:file sub:directory"},
		{"recursive", args{"recursive": true}, "etc:link in.yaml:file sub:directory sub/in.txt:file"},
		{"glob", args{"recursive": true, "glob": "*.txt"}, "sub/in.txt:file"},
		{"directory", args{"path": "sub/"}, "sub/in.txt:file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, e := range c.ok("list_files", tt.args)["entries"].([]any) {
				e := e.(map[string]any)
				got = append(got, e["path"].(string)+":"+e["type"].(string))
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("list_files(%v)\n got %s\nwant %s", tt.args, got, tt.want)
			}
		})
	}
	c.refused("bad_path", "list_files", args{"path": "in.yaml"})
}

func TestHugeFilesAreReadInPieces(t *testing.T) {
	c := start(t, Options{MaxFile: 10})
	path := filepath.Join(c.root, "big")
	if err := os.WriteFile(path, bytes.Repeat([]byte("0123456789"), 3), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := c.refused("too_large", "read_file", args{"path": "big"}); !strings.Contains(got, "offset and length") {
		t.Errorf("read_file over the limit: %q does not say what to do", got)
	}
	if got := c.ok("read_file", args{"path": "big", "offset": 15, "length": 10})["text"]; got != "5678901234" {
		t.Errorf("read_file of a piece: got %v", got)
	}
	c.refused("too_large", "write_file", args{"path": "new", "text": strings.Repeat("x", 11)})
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip("file system without sparse files")
	}
	c.refused("too_large", "read_file", args{"path": "big", "length": int64(1) << 40})
}

// Opening a named pipe waits for its other end; a hostile one must not hold the server.
func TestNamedPipesAreRefused(t *testing.T) {
	c := start(t, Options{})
	if err := syscall.Mkfifo(filepath.Join(c.root, "pipe"), 0o644); err != nil {
		t.Skip(err)
	}
	c.refused("bad_path", "read_file", args{"path": "pipe"})
	c.refused("bad_path", "write_file", args{"path": "pipe", "text": "x"})
}

func TestMissingFilesAreNotFound(t *testing.T) {
	c := start(t, Options{})
	got := c.refused("not_found", "read_file", args{"path": "no/such"})
	if want := "not_found: read no/such: no such file or directory"; got != want {
		t.Errorf("read_file:\n got %s\nwant %s", got, want)
	}
}
