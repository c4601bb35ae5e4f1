package credentials

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

const (
	// maxStore bounds the file of stored grants, in bytes, and maxGrants their number.
	maxStore  = 64 << 20
	maxGrants = 10_000
)

// A Grant is the result of a login at a backend: tokens, and where they are renewed.
type Grant struct {
	Issuer       string    `json:"issuer"`
	TokenURL     string    `json:"tokenUrl"`
	ClientID     string    `json:"clientId"`
	ClientSecret string    `json:"clientSecret,omitempty"`
	Resource     string    `json:"resource,omitempty"`
	Scopes       []string  `json:"scopes,omitempty"`
	Access       string    `json:"access"`
	Refresh      string    `json:"refresh,omitempty"`
	Renew        time.Time `json:"renew,omitzero"` // when nine tenths of its life are over
	Expires      time.Time `json:"expires,omitzero"`
}

// Store keeps grants in a file. Each is sealed separately (AES-256-GCM) with its principal, backend
// and issuer as additional data, so that a record copied to another principal does not open. The
// file is read again when another process has changed it.
type Store struct {
	path    string
	keys    []sealKey // the first one seals
	unsaved unsaved

	mu      sync.Mutex
	stamp   files.Stamp // guarded by mu
	records []record    // guarded by mu
}

type sealKey struct {
	id   string
	aead cipher.AEAD
}

// record is one grant in the file.
type record struct {
	Backend   string `json:"backend"`
	Principal string `json:"principal,omitempty"` // its key; "" for this proxy itself
	Issuer    string `json:"issuer"`
	Key       string `json:"key"`
	Sealed    []byte `json:"sealed"`
}

// OpenStore returns the store of a configuration. cfg.Key is the value of the environment variable
// that keyEnv names: one or more keys of 32 bytes in base64, separated by commas. The first one
// seals, all open.
func OpenStore(cfg config.TokenStore) (*Store, error) {
	s := &Store{path: cfg.File}
	for text := range strings.SplitSeq(cfg.Key, ",") {
		key, err := parseKey(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(append([]byte("vmcp token store key id "), key...))
		s.keys = append(s.keys, sealKey{hex.EncodeToString(sum[:4]), aead})
	}
	return s, nil
}

// parseKey parses a key: 32 bytes in base64, standard or URL-safe, with or without padding.
func parseKey(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(text)
	key, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(key) != 32 {
		return nil, errors.New("want 32 random bytes in base64; openssl rand -base64 32 makes them")
	}
	return key, nil
}

// Find implements Keeper. A renewed grant that could not be written is written now, or returned nevertheless.
func (s *Store) Find(_ context.Context, backend, principal string) (*Grant, error) {
	stored, err := s.stored(backend, principal)
	if err != nil {
		return nil, err
	}
	k := grantKey{backend, principal}
	next := s.unsaved.inPlaceOf(k, stored)
	if next == nil {
		return stored, nil
	}
	err = s.change(func() error {
		now, err := s.grant(backend, principal)
		switch {
		case err != nil:
			return err
		case s.unsaved.inPlaceOf(k, now) == nil: // another process has stored or removed one
			next = now
			return nil
		}
		return s.put(backend, principal, next)
	})
	if err == nil {
		s.unsaved.forget(k)
	}
	return next, nil
}

// stored returns the grant in the file, nil when there is none.
func (s *Store) stored(backend, principal string) (*Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(); err != nil {
		return nil, err
	}
	return s.grant(backend, principal)
}

// grant returns the grant among the records, nil when there is none. mu is held.
func (s *Store) grant(backend, principal string) (*Grant, error) {
	i := s.index(backend, principal)
	if i < 0 {
		return nil, nil
	}
	return s.open(s.records[i])
}

// Put implements Keeper. The grant is on disk when Put returns.
func (s *Store) Put(_ context.Context, backend, principal string, g *Grant) error {
	return s.change(func() error { return s.put(backend, principal, g) })
}

// put replaces a grant among the records. mu is held.
func (s *Store) put(backend, principal string, g *Grant) error {
	i := s.index(backend, principal)
	if i < 0 && len(s.records) >= maxGrants {
		return fmt.Errorf("%s: %d logins are stored, which is the maximum; remove some with vmcp logout", s.path, maxGrants)
	}
	r, err := s.seal(record{Backend: backend, Principal: principal, Issuer: g.Issuer}, g)
	switch {
	case err != nil:
		return err
	case i < 0:
		s.records = append(s.records, r)
	default:
		s.records[i] = r
	}
	return nil
}

// Remove implements Keeper.
func (s *Store) Remove(_ context.Context, backend, principal string) (n int, err error) {
	return s.remove(func(r record) bool { return r.Backend == backend && r.Principal == principal })
}

// RemoveAll implements Keeper.
func (s *Store) RemoveAll(_ context.Context, backend string) (n int, err error) {
	return s.remove(func(r record) bool { return r.Backend == backend })
}

func (s *Store) remove(which func(record) bool) (n int, err error) {
	err = s.change(func() error {
		before := len(s.records)
		s.records = slices.DeleteFunc(s.records, which)
		n = before - len(s.records)
		return nil
	})
	return n, err
}

// change applies f to the records and writes the file, holding the lock between processes.
func (s *Store) change(f func() error) error {
	unlock, err := files.Lock(s.path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stamp = files.Stamp{}
	if err := s.read(); err != nil {
		return err
	}
	s.records = slices.Clone(s.records)
	if err := f(); err != nil {
		s.stamp = files.Stamp{} // read again
		return err
	}
	data, err := json.MarshalIndent(map[string]any{"version": 1, "records": s.records}, "", " ")
	if err == nil {
		err = files.WritePrivate(s.path, append(data, '\n'))
	}
	s.stamp = files.StampOf(s.path)
	if err != nil {
		s.stamp = files.Stamp{}
	}
	return err
}

// read reads the file if it has changed. A file that does not exist is an empty store. mu is held.
func (s *Store) read() error {
	stamp := files.StampOf(s.path)
	if stamp.Exists() && s.stamp.Exists() && stamp.Same(s.stamp) {
		return nil
	}
	data, err := files.Read(s.path, maxStore)
	if errors.Is(err, fs.ErrNotExist) {
		s.records, s.stamp = nil, files.Stamp{}
		return nil
	}
	var content struct {
		Version int
		Records []record
	}
	if err == nil {
		err = json.Unmarshal(data, &content)
	}
	switch {
	case err != nil:
		return fmt.Errorf("token store %s: %w", s.path, err)
	case content.Version != 1:
		return fmt.Errorf("token store %s: version %d, want 1", s.path, content.Version)
	}
	s.records, s.stamp = content.Records, stamp
	return nil
}

// index returns the index of a grant in records; -1 when there is none. mu is held.
func (s *Store) index(backend, principal string) int {
	return slices.IndexFunc(s.records, func(r record) bool { return r.Backend == backend && r.Principal == principal })
}

// bound returns the additional data that a record is sealed with: principal, backend and issuer.
func (r record) bound() []byte {
	var b []byte
	for _, part := range []string{r.Principal, r.Backend, r.Issuer} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b
}

func (s *Store) seal(r record, g *Grant) (record, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return r, err
	}
	k := s.keys[0]
	nonce := make([]byte, k.aead.NonceSize())
	rand.Read(nonce)
	r.Key, r.Sealed = k.id, k.aead.Seal(nonce, nonce, text, r.bound())
	return r, nil
}

func (s *Store) open(r record) (*Grant, error) {
	for _, k := range s.keys {
		n := k.aead.NonceSize()
		if k.id != r.Key || len(r.Sealed) < n {
			continue
		}
		text, err := k.aead.Open(nil, r.Sealed[:n], r.Sealed[n:], r.bound())
		if err != nil {
			return nil, fmt.Errorf("token store %s: the record of backend %s was modified, or belongs to another principal", s.path, r.Backend)
		}
		g := &Grant{}
		return g, json.Unmarshal(text, g)
	}
	return nil, fmt.Errorf("token store %s: the record of backend %s is sealed with a key that is not configured (%s)", s.path, r.Backend, r.Key)
}
