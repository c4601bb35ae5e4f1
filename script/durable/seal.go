package durable

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// This part of the package authenticates stored and sent bytes, and optionally encrypts them: a change by somebody without a
// key of the ring is detected when they are opened.
//
// A sealed text is
//
//	form(1) | length of the key's id(1) | id | nonce(12) | AES-256-GCM      form 1
//	form(1) | length of the key's id(1) | id | HMAC-SHA-256/128 | text      form 2, not encrypted
//
// and is bound to a purpose and a context, such as the row and the column in which it is stored: Open refuses it
// with others. Each purpose has separate keys, derived by HKDF-SHA-256 from those of the ring.

// Purposes of keys: what the keys that are derived for each of them seal.
const (
	Rows      = "rows"    // columns of a database that are stored encrypted
	MAC       = "mac"     // columns of a database that are stored in plain text
	digest    = "digest"  // fingerprints of values that are easy to guess
	SealState = "state"   // requestState of MCP
	Session   = "session" // ids of sessions
	cursor    = "cursor"  // cursors of lists
	Peer      = "peer"    // requests between the processes of a cluster
	notify    = "notify"  // signatures of notifications
	Check     = "check"   // by which processes compare their keys
	Tokens    = "tokens"  // tokens of logins at backends
)

// ErrForged is returned for a text that was not sealed by a key of the ring for this purpose and context.
var ErrForged = errors.New("does not fit its seal")

// An UnknownKeyError has the id of the key by which a text is sealed and which the ring does not have.
type UnknownKeyError struct{ ID string }

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("is sealed by the key %q, which is not configured", e.ID)
}

// Key is one key of a ring: 32 random bytes and a name of 1 to 64 characters.
type Key struct {
	ID     string
	Secret []byte
}

const (
	encrypted = 1
	plain     = 2

	nonceSize = 12
	tagSize   = 16
)

// Ring seals with its first key and opens with all of them. Its methods, Replace too, are safe for concurrent use.
type Ring struct {
	keys atomic.Pointer[[]*ringKey]
}

// ringKey is a key with the keys that were derived from it.
type ringKey struct {
	Key
	purposes sync.Map // purpose -> *derived
}

// derived is a key for one purpose.
type derived struct {
	key  []byte
	aead cipher.AEAD
}

// NewSeal returns a ring of keys, the first of which seals. See Replace for its errors.
func NewSeal(keys []Key) (*Ring, error) {
	r := &Ring{}
	return r, r.Replace(keys)
}

// Replace replaces all keys of the ring atomically. There has to be one, each with a secret of 32 bytes and an id of
// 1 to 64 bytes; on an error the ring keeps the keys that it had.
func (r *Ring) Replace(keys []Key) error {
	if len(keys) == 0 {
		return errors.New("a key ring needs a key")
	}
	ring := make([]*ringKey, len(keys))
	for i, k := range keys {
		if len(k.Secret) != 32 || len(k.ID) < 1 || len(k.ID) > 64 {
			return fmt.Errorf("the key %q: want 32 bytes and an id of 1 to 64 characters", k.ID)
		}
		ring[i] = &ringKey{Key: k}
	}
	r.keys.Store(&ring)
	return nil
}

// First is the id of the key that seals.
func (r *Ring) First() string { return r.first().ID }

// IDs are the ids of the keys, the one that seals first.
func (r *Ring) IDs() []string {
	var ids []string
	for _, k := range *r.keys.Load() {
		ids = append(ids, k.ID)
	}
	return ids
}

func (r *Ring) first() *ringKey { return (*r.keys.Load())[0] }

func (k *ringKey) derive(purpose string) *derived {
	if d, ok := k.purposes.Load(purpose); ok {
		return d.(*derived)
	}
	key, err := hkdf.Key(sha256.New, k.Secret, nil, "vmcp/"+purpose, 32)
	if err != nil {
		panic(err) // a length that is not allowed
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	d := &derived{key: key, aead: aead}
	k.purposes.Store(purpose, d)
	return d
}

// Encrypt returns text sealed in form 1: encrypted and authenticated.
func (r *Ring) Encrypt(purpose, context string, text []byte) []byte {
	k := r.first()
	head := header(encrypted, k.ID)
	out := make([]byte, len(head)+nonceSize, len(head)+nonceSize+len(text)+tagSize)
	copy(out, head)
	rand.Read(out[len(head):])
	return k.derive(purpose).aead.Seal(out, out[len(head):], text, bound(head, purpose, context))
}

// Sign returns text sealed in form 2: readable and authenticated.
func (r *Ring) Sign(purpose, context string, text []byte) []byte {
	k := r.first()
	head := header(plain, k.ID)
	out := make([]byte, 0, len(head)+tagSize+len(text))
	out = append(append(out, head...), k.derive(purpose).sum(bound(head, purpose, context), text)...)
	return append(out, text...)
}

// Open returns the text that was sealed for the same purpose and context, in either form. The error is ErrForged or an
// *UnknownKeyError.
func (r *Ring) Open(purpose, context string, sealed []byte) ([]byte, error) {
	id, head, ok := keyOf(sealed)
	if !ok {
		return nil, ErrForged
	}
	k := r.find(id)
	if k == nil {
		return nil, &UnknownKeyError{ID: id}
	}
	d, with, rest := k.derive(purpose), bound(sealed[:head], purpose, context), sealed[head:]
	if sealed[0] == plain {
		if len(rest) < tagSize || !hmac.Equal(d.sum(with, rest[tagSize:]), rest[:tagSize]) {
			return nil, ErrForged
		}
		return rest[tagSize:], nil
	}
	if len(rest) < nonceSize+tagSize {
		return nil, ErrForged
	}
	text, err := d.aead.Open(nil, rest[:nonceSize], rest[nonceSize:], with)
	if err != nil {
		return nil, ErrForged
	}
	return text, nil
}

func (r *Ring) find(id string) *ringKey {
	for _, k := range *r.keys.Load() {
		if k.ID == id {
			return k
		}
	}
	return nil
}

// KeyOf returns the id of the key that a sealed text names, not verified; "" for bytes that are no sealed text.
func KeyOf(sealed []byte) string {
	id, _, _ := keyOf(sealed)
	return id
}

func keyOf(sealed []byte) (id string, end int, ok bool) {
	if len(sealed) < 3 || sealed[0] != encrypted && sealed[0] != plain {
		return "", 0, false
	}
	end = 2 + int(sealed[1])
	if sealed[1] == 0 || len(sealed) < end {
		return "", 0, false
	}
	return string(sealed[2:end]), end, true
}

// Tag returns the authentication tag of a sealed text, 16 bytes; nil for bytes that are no sealed text.
func Tag(sealed []byte) []byte {
	_, head, ok := keyOf(sealed)
	switch {
	case !ok || len(sealed) < head+tagSize:
		return nil
	case sealed[0] == plain:
		return sealed[head : head+tagSize]
	}
	return sealed[len(sealed)-tagSize:]
}

// MACs returns the HMAC-SHA-256 of a text by every key of the ring, in their order: while keys are rotated, the
// receiver of a notification may have the old one or the new one.
func (r *Ring) MACs(purpose string, text []byte) [][]byte {
	var all [][]byte
	for _, k := range *r.keys.Load() {
		h := hmac.New(sha256.New, k.derive(purpose).key)
		h.Write(text)
		all = append(all, h.Sum(nil))
	}
	return all
}

func header(form byte, id string) []byte {
	return append([]byte{form, byte(len(id))}, id...)
}

// bound returns the associated data of a sealed text: the header, the purpose and the context, each after its length.
func bound(head []byte, purpose, context string) []byte {
	all := make([]byte, 0, len(head)+len(purpose)+len(context)+12)
	for _, part := range []string{string(head), purpose, context} {
		n := len(part)
		all = append(append(all, byte(n>>24), byte(n>>16), byte(n>>8), byte(n)), part...)
	}
	return all
}

func (d *derived) sum(with, text []byte) []byte {
	h := hmac.New(sha256.New, d.key)
	h.Write(with)
	h.Write(text)
	return h.Sum(nil)[:tagSize]
}
