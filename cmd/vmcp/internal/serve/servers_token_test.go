package serve_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
)

// TestTokenFiles: a file that is no token file admits nobody, does not block a request, and is not read completely.
func TestTokenFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]int{
		"": http.StatusOK, write("good", []byte("secret\n")): http.StatusOK, write("other", []byte("secrets")): http.StatusUnauthorized,
		write("empty", []byte("\n")): http.StatusUnauthorized, dir: http.StatusUnauthorized, filepath.Join(dir, "gone"): http.StatusUnauthorized, os.DevNull: http.StatusUnauthorized,
		write("huge", append([]byte("secret"), bytes.Repeat([]byte("\n"), 64<<10)...)): http.StatusUnauthorized,
	} {
		process := config.Default()
		process.Admin = config.Admin{Listen: "127.0.0.1:1", TokenFile: path}
		if got, body := serversAsk(world(t, process, "", []string{"ops"}).AdminHandler(), "GET", "/metrics", "", "Authorization", "Bearer secret"); got != want {
			t.Errorf("with the token file %q: %d %s, want %d", filepath.Base(path), got, body, want)
		}
	}
}
