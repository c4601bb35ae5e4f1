package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// The token of this machine's user.
//
// A program that starts an endpoint for its user excludes other users of the machine by one
// token in a file that only this user can read. Server and clients name the same file; nothing
// else has to be configured.

// MakeOwnToken creates a file with a new token, of mode 0600 and in folders of mode 0700.
// An existing file is checked and kept.
func MakeOwnToken(path string) error {
	if _, err := os.Stat(path); err == nil {
		return checkOwnToken(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := files.Lock(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	_, err = os.Stat(path)
	switch {
	case err == nil: // another process made it meanwhile
		return checkOwnToken(path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return files.WritePrivate(path, []byte(newSecret()+"\n"))
}

func checkOwnToken(path string) error {
	_, err := readOwnToken(path)
	return err
}

// newSecret returns a token of 256 random bits.
func newSecret() string {
	var raw [32]byte
	rand.Read(raw[:])
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
}

// readOwnToken reads the file as a table of one token.
func readOwnToken(path string) ([]Token, error) {
	token, err := config.ReadToken(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	sum := sha256.Sum256([]byte(token))
	return []Token{{SHA256: hex.EncodeToString(sum[:])}}, nil
}

// ownPrincipal returns the principal of this machine's user, with the required scopes, for the
// token of that hash.
func ownPrincipal(hash [sha256.Size]byte, scopes []string) *Principal {
	p := *local()
	p.Scopes, p.token = scopes, hex.EncodeToString(hash[:])
	return &p
}

// holds reports whether the token of a principal is still in the file.
func (t *tokenTable) holds(p *Principal) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.byHash[p.token]
	return ok
}
