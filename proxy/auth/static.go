package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/internal/files"
)

// tokenPrefix is the prefix of each token of NewToken, for secret scanners.
const tokenPrefix = "vmcp_"

// maxTokenFile bounds a tokens file, in bytes.
const maxTokenFile = 4 << 20

// Token is one row of a tokens file. It has the hash of the token, not the token.
type Token struct {
	Name    string    `json:"name"`
	SHA256  string    `json:"sha256"` // 64 hexadecimal digits
	Groups  []string  `json:"groups,omitempty"`
	Scopes  []string  `json:"scopes,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
}

type tokenFile struct {
	Tokens []Token `json:"tokens"`
}

// ReadTokens reads a tokens file. The error lists all problems.
func ReadTokens(path string) ([]Token, error) {
	data, err := files.Read(path, maxTokenFile)
	if _, named := errors.AsType[*fs.PathError](err); named {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return parseTokens(path, data)
}

var tokenName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._@-]*$`)

const maxTokenName = 128

func parseTokens(path string, data []byte) ([]Token, error) {
	var f tokenFile
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var problems []error
	names, hashes := map[string]int{}, map[string]int{}
	for i := range f.Tokens {
		t := &f.Tokens[i]
		t.SHA256 = strings.ToLower(t.SHA256)
		report := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("%s: tokens[%d]%s", path, i, fmt.Sprintf(format, args...)))
		}
		if len(t.Name) > maxTokenName || !tokenName.MatchString(t.Name) {
			report(".name: want up to 128 letters, digits, ., _, @ and -, have %q", t.Name)
		}
		if raw, err := hex.DecodeString(t.SHA256); err != nil || len(raw) != sha256.Size {
			report(".sha256: want 64 hexadecimal digits, the SHA-256 of the token")
		}
		if first, twice := names[t.Name]; twice {
			report(".name: %q is already the name of tokens[%d]", t.Name, first)
		}
		if first, twice := hashes[t.SHA256]; twice {
			report(".sha256: the same token as tokens[%d]", first)
		}
		names[t.Name], hashes[t.SHA256] = i, i
	}
	return f.Tokens, errors.Join(problems...)
}

// NewToken makes a token of 256 random bits, adds its hash to the file with t's name, groups,
// scopes and expiry, and returns the token, which cannot be read later. It creates the file
// with mode 0600 if there is none.
func NewToken(path string, t Token) (string, error) {
	token := newSecret()
	sum := sha256.Sum256([]byte(token))
	t.SHA256 = hex.EncodeToString(sum[:])
	return token, changeTokens(path, func(all []Token) ([]Token, error) {
		if slices.ContainsFunc(all, func(o Token) bool { return o.Name == t.Name }) {
			return nil, fmt.Errorf("%s: there is already a token %q: revoke it first, or choose another name", path, t.Name)
		}
		return append(all, t), nil
	})
}

// RevokeToken removes a token from the file.
func RevokeToken(path, name string) error {
	return changeTokens(path, func(all []Token) ([]Token, error) {
		n := len(all)
		all = slices.DeleteFunc(all, func(t Token) bool { return t.Name == name })
		if len(all) == n {
			return nil, fmt.Errorf("%s: no token %q", path, name)
		}
		return all, nil
	})
}

// changeTokens replaces the file by a rename, holding a lock file beside it. For a symbolic link
// it replaces the target.
func changeTokens(path string, change func([]Token) ([]Token, error)) error {
	if led, err := filepath.EvalSymlinks(path); err == nil {
		path = led
	}
	unlock, err := files.Lock(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	tokens, err := ReadTokens(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if tokens, err = change(tokens); err != nil {
		return err
	}
	data, err := yaml.Marshal(tokenFile{tokens})
	if err != nil {
		return err
	}
	if _, err := parseTokens(path, data); err != nil {
		return err
	}
	return files.WritePrivate(path, data)
}

// tokenTable is the current tokens of a file.
type tokenTable struct {
	path    string
	read    func(path string) ([]Token, error)
	changed func() // called after the tokens changed

	mu     sync.Mutex
	byHash map[string]Token // guarded by mu; nil: the file does not exist, and no token is accepted
	stamp  files.Stamp      // guarded by mu: of the file that was read last
}

// openTokens reads a tokens file, which must exist and be valid.
func openTokens(path string, read func(string) ([]Token, error), changed func()) (*tokenTable, error) {
	t := &tokenTable{path: path, read: read, changed: changed}
	stamp := files.StampOf(path)
	tokens, err := read(path)
	if err != nil {
		return nil, err
	}
	t.set(tokens)
	t.stamp = stamp
	return t, nil
}

func (t *tokenTable) set(tokens []Token) {
	t.byHash = make(map[string]Token, len(tokens))
	for _, tok := range tokens {
		t.byHash[tok.SHA256] = tok
	}
}

// refresh reads the file if it has changed. An invalid file changes nothing;
// without a file no token is accepted. It returns the error of a changed file.
func (t *tokenTable) refresh() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := files.StampOf(t.path)
	if s.Same(t.stamp) {
		return nil
	}
	t.stamp = s
	if !s.Exists() {
		t.byHash = nil
		t.changed()
		return fmt.Errorf("%s: the tokens file does not exist any more: its tokens are refused", t.path)
	}
	tokens, err := t.read(t.path)
	if err == nil && tokens == nil { // perhaps it is being written
		err = fmt.Errorf("%s: want tokens, and [] for none", t.path)
	}
	if err != nil {
		return fmt.Errorf("the previous tokens stay in use: %w", err)
	}
	t.set(tokens)
	t.changed()
	return nil
}

// find returns the row of a token by its hash.
func (t *tokenTable) find(hash [sha256.Size]byte) (Token, bool) {
	if t == nil {
		return Token{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tok, ok := t.byHash[hex.EncodeToString(hash[:])]
	return tok, ok
}

// principal returns the principal of a token of the file.
func (t Token) principal() *Principal {
	return newPrincipal(Principal{Issuer: IssuerTokens, Subject: t.Name, Groups: t.Groups, Scopes: t.Scopes, Expires: t.Expires, token: t.SHA256})
}

// has reports whether the token of a principal is still in the file, with the same groups,
// scopes and expiry. A new token of the same name is a different one.
func (t *tokenTable) has(p *Principal) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tok, ok := t.byHash[p.token]
	return ok && tok.Name == p.Subject && tok.Expires.Equal(p.Expires) && p.mayAs(tok.Groups, tok.Scopes)
}
