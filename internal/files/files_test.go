//go:build unix

package files_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/files"
)

// odd makes a folder with every kind of file.
func odd(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "files") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := func(name string) string { return filepath.Join(dir, name) }
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	outside := filepath.Join(t.TempDir(), "outside")
	for _, err := range []error{
		os.WriteFile(at("plain"), []byte("text"), 0o600),
		os.WriteFile(outside, []byte("secret"), 0o600),
		os.WriteFile(at("sparse"), nil, 0o600),
		os.Truncate(at("sparse"), 1<<30),
		os.Mkdir(at("folder"), 0o700),
		os.Symlink("plain", at("link")),
		os.Symlink(outside, at("out")),
		os.Symlink("nowhere", at("dangling")),
		os.Symlink("/dev/zero", at("device")),
		syscall.Mkfifo(at("pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := odd(t)
	for _, tt := range []struct{ name, below, anywhere string }{
		{"plain", "text", "text"},
		{"link", "text", "text"},
		{"out", "a symbolic link leads out of the folder " + dir, "secret"},
		{"device", "a symbolic link leads out of the folder " + dir, "want a regular file, this is a device"},
		{"pipe", "want a regular file, this is a pipe", "want a regular file, this is a pipe"},
		{"socket", "want a regular file, this is a socket", "want a regular file, this is a socket"},
		{"folder", "want a regular file, this is a folder", "want a regular file, this is a folder"},
		{"sparse", "the file has 1073741824 bytes or more, want at most 1024", "the file has 1073741824 bytes or more, want at most 1024"},
		{"dangling", "no such file", "no such file"},
		{"../plain", "escapes", "no such file"},
	} {
		below, err := files.ReadBelow(dir, tt.name, 1024)
		if got := textOf(below, err); !strings.Contains(got, tt.below) {
			t.Errorf("ReadBelow(%s) = %q, want %q", tt.name, got, tt.below)
		}
		anywhere, err := files.Read(filepath.Join(dir, tt.name), 1024)
		if got := textOf(anywhere, err); !strings.Contains(got, tt.anywhere) {
			t.Errorf("Read(%s) = %q, want %q", tt.name, got, tt.anywhere)
		}
	}
}

func textOf(data []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	return string(data)
}
