package auth

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// unknownKeyEvery is the shortest interval between fetches caused by unknown key ids,
	// which anybody can invent.
	unknownKeyEvery = 10 * time.Second
	// keysOutlive is how long keys are used while their issuer cannot be reached.
	keysOutlive = time.Hour
	// maxDocument bounds a response of an issuer, in bytes.
	maxDocument  = 1 << 20
	fetchTimeout = 5 * time.Second
)

// keySet is the keys of an issuer. They are fetched when a token first needs one, again
// after each refresh interval, and for an unknown key id, at most every unknownKeyEvery.
//
// One fetch runs at a time, and all callers wait for it. The mutex is not held meanwhile.
type keySet struct {
	issuer  string
	url     string // of the key set; "": from the discovery document
	client  *http.Client
	every   time.Duration
	dropped func(gone map[string]bool) // called with the ids of withdrawn keys
	now     func() time.Time

	mu       sync.Mutex
	keys     map[string]jose.JSONWebKey // guarded by mu, by key id
	unnamed  []jose.JSONWebKey          // guarded by mu: those without an id
	fetched  time.Time                  // guarded by mu: the last successful fetch
	tried    time.Time                  // guarded by mu: the last fetch
	err      error                      // guarded by mu: of the last fetch
	fetching chan struct{}              // guarded by mu: closed when the running fetch has ended; nil: none runs
}

// find returns the keys that may have signed a token: the one with its id, or for a
// token without an id all. An unknown id is errKey only after a recent successful fetch;
// while the issuer cannot be reached it is unavailable.
func (s *keySet) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	for round := 0; ; round++ {
		keys, fresh, err := s.cached(id)
		if keys != nil || err != nil {
			return keys, err
		}
		if fresh || round > 1 {
			return nil, errKey
		}
		if err := s.fetch(ctx); err != nil {
			return nil, err
		}
	}
}

// cached finds keys among the fetched ones. fresh is set when they were fetched too recently
// for another fetch.
func (s *keySet) cached(id string) (keys []jose.JSONWebKey, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	age := now.Sub(s.fetched)
	usable := !s.fetched.IsZero() && age < max(keysOutlive, s.every)
	justTried := !s.tried.IsZero() && now.Sub(s.tried) < unknownKeyEvery
	if usable && (age < s.every || justTried) {
		if k, ok := s.keys[id]; ok && id != "" {
			return []jose.JSONWebKey{k}, true, nil
		}
		if id == "" && len(s.keys)+len(s.unnamed) > 0 {
			return s.all(), true, nil
		}
	}
	if justTried && s.err != nil && s.fetching == nil {
		return nil, true, unavailable(s.err)
	}
	return nil, justTried && s.fetching == nil, nil
}

// due returns when the keys are fetched again, and verdicts based on them end. While the issuer is
// down, that is after unknownKeyEvery.
func (s *keySet) due() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	due, soonest := s.fetched.Add(s.every), s.now().Add(unknownKeyEvery)
	if due.Before(soonest) {
		return soonest
	}
	return due
}

// all returns all keys, for a token without a key id. mu is held.
func (s *keySet) all() []jose.JSONWebKey {
	keys := append([]jose.JSONWebKey(nil), s.unnamed...)
	for _, k := range s.keys {
		keys = append(keys, k)
	}
	return keys
}

// fetch fetches the keys, or waits for the running fetch.
func (s *keySet) fetch(ctx context.Context) error {
	s.mu.Lock()
	running := s.fetching
	if running == nil {
		running = make(chan struct{})
		s.fetching = running
		s.tried = s.now()
		go s.fetchNow(running)
	}
	s.mu.Unlock()
	select {
	case <-running:
		return nil
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

// fetchNow fetches the keys, within two fetch timeouts. It does not use the context of a
// caller, because several may wait for it.
func (s *keySet) fetchNow(done chan struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(context.Background(), 2*fetchTimeout)
	defer cancel()
	set, err := s.get(ctx)
	s.mu.Lock()
	s.fetching, s.err = nil, err
	var gone map[string]bool
	if err == nil {
		gone = s.replace(set)
	}
	s.mu.Unlock()
	if len(gone) > 0 {
		s.dropped(gone)
	}
}

// replace replaces the keys and returns the ids that were removed or have another key. mu is held.
func (s *keySet) replace(set *jose.JSONWebKeySet) map[string]bool {
	keys, unnamed := map[string]jose.JSONWebKey{}, []jose.JSONWebKey(nil)
	for _, k := range set.Keys {
		switch {
		case !k.IsPublic() || !k.Valid() || k.Use == "enc":
		case k.KeyID == "":
			unnamed = append(unnamed, k)
		default:
			keys[k.KeyID] = k
		}
	}
	gone := map[string]bool{}
	for id, old := range s.keys {
		if k, ok := keys[id]; !ok || !sameKey(k, old) {
			gone[id] = true
		}
	}
	s.keys, s.unnamed, s.fetched = keys, unnamed, s.now()
	return gone
}

func sameKey(a, b jose.JSONWebKey) bool {
	x, errX := a.Thumbprint(crypto.SHA256)
	y, errY := b.Thumbprint(crypto.SHA256)
	return errX == nil && errY == nil && string(x) == string(y)
}

func (s *keySet) get(ctx context.Context) (*jose.JSONWebKeySet, error) {
	url := s.url
	if url == "" {
		var err error
		if url, err = discoverKeys(ctx, s.client, s.issuer); err != nil {
			return nil, err
		}
	}
	var set jose.JSONWebKeySet
	if err := getJSON(ctx, s.client, url, &set); err != nil {
		return nil, err
	}
	if len(set.Keys) == 0 {
		return nil, fmt.Errorf("%s: no keys", url)
	}
	return &set, nil
}

// discoverKeys returns the URL of an issuer's keys from its discovery document (OpenID Connect
// Discovery 1.0, section 4; RFC 8414, section 3).
func discoverKeys(ctx context.Context, client *http.Client, issuer string) (string, error) {
	var doc struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	url := strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
	if err := getJSON(ctx, client, url, &doc); err != nil {
		return "", err
	}
	if doc.Issuer != issuer {
		return "", fmt.Errorf("%s: issuer is %q, want %q", url, doc.Issuer, issuer)
	}
	if doc.Keys == "" {
		return "", fmt.Errorf("%s: no jwks_uri", url)
	}
	return doc.Keys, nil
}

func getJSON(ctx context.Context, client *http.Client, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	return doJSON(client, req, into)
}

// doJSON sends a request to an issuer and decodes its response into into.
func doJSON(client *http.Client, req *http.Request, into any) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: HTTP %s", req.URL.Redacted(), resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", req.URL.Redacted(), err)
	case len(data) > maxDocument:
		return fmt.Errorf("%s: response larger than %d bytes", req.URL.Redacted(), maxDocument)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", req.URL.Redacted(), err)
	}
	return nil
}

var errRedirect = errors.New("redirects of an issuer are not followed")
