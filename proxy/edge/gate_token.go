package edge

import (
	"crypto/sha256"
	"crypto/subtle"
	"sync"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// Token is the token in a file, read again when the file changes.
type Token struct {
	path string

	mu    sync.Mutex
	read  files.Stamp // guarded by mu; of the file as it was last read
	token string      // guarded by mu; "" if the file has none: nothing is accepted then
}

// newToken returns the token in a file; nil for no file.
func newToken(path string) *Token {
	if path == "" {
		return nil
	}
	return &Token{path: path}
}

// Accepts compares a token in constant time.
func (t *Token) Accepts(given string) bool {
	want := t.current()
	if want == "" {
		return false
	}
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// current is the token in the file; "" while it cannot be read.
func (t *Token) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := files.StampOf(t.path)
	if !now.Exists() {
		t.read, t.token = now, ""
		return ""
	}
	if !t.read.Same(now) {
		t.read = now
		t.token, _ = config.ReadToken(t.path) // "" on error
	}
	return t.token
}
