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
	// unknownKeyEvery is how often a token with an unknown key may cause a fetch, for all
	// requests together: anybody can invent key ids.
	unknownKeyEvery = 10 * time.Second
	// keysOutlive is how long keys go on serving while their issuer cannot be reached.
	keysOutlive = time.Hour
	// maxDocument bounds what an issuer answers, in bytes.
	maxDocument  = 1 << 20
	fetchTimeout = 5 * time.Second
)

// keySet is the keys of an issuer. They are fetched when a token first needs one, again
// every refresh interval, and at once, though rarely, for a key that is not there.
//
// One fetch runs at a time; whoever needs its outcome waits for it. The mutex is not held
// meanwhile.
type keySet struct {
	issuer  string
	url     string // of the key set; "" asks the discovery document
	client  *http.Client
	every   time.Duration
	dropped func(gone map[string]bool) // called when keys were withdrawn, by id
	now     func() time.Time

	mu       sync.Mutex
	keys     map[string]jose.JSONWebKey // guarded by mu, by key id
	unnamed  []jose.JSONWebKey          // guarded by mu: those without an id
	fetched  time.Time                  // guarded by mu: when keys were last got
	tried    time.Time                  // guarded by mu: when they were last asked for
	err      error                      // guarded by mu: how the last attempt ended
	fetching chan struct{}              // guarded by mu: closed when the running fetch has ended; nil: none runs
}

// find returns the keys that may have signed a token: the one with its id, or those
// without. A key that is not there is errKey only when a fetch of a moment ago knows
// nothing of it; while the issuer cannot say, the refusal is that it is unavailable.
func (s *keySet) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	for round := 0; ; round++ {
		keys, fresh, err := s.look(id)
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

// look finds keys among those that are there. fresh says that there is no sense in asking
// the issuer again now.
func (s *keySet) look(id string) (keys []jose.JSONWebKey, fresh bool, err error) {
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

// due is when the keys have to be looked at again, and with them what they have vouched for. While
// the issuer is down that is as often as it is asked.
func (s *keySet) due() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	due, soonest := s.fetched.Add(s.every), s.now().Add(unknownKeyEvery)
	if due.Before(soonest) {
		return soonest
	}
	return due
}

// all are the keys for a token that names none. mu is held.
func (s *keySet) all() []jose.JSONWebKey {
	keys := append([]jose.JSONWebKey(nil), s.unnamed...)
	for _, k := range s.keys {
		keys = append(keys, k)
	}
	return keys
}

// fetch asks the issuer, or waits for whoever does.
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

// fetchNow does not depend on who asked first: others wait for it, too. It ends within two
// fetch timeouts.
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

// replace takes over a key set and returns the ids that are not in it any more. mu is held.
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

// discoverKeys asks an issuer where its keys are (OpenID Connect Discovery 1.0, section 4;
// RFC 8414, section 3).
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
		return "", fmt.Errorf("%s: says that its issuer is %q, want %q", url, doc.Issuer, issuer)
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

// doJSON makes a request of an issuer and reads its answer.
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
		return fmt.Errorf("%s: an answer of more than %d bytes", req.URL.Redacted(), maxDocument)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", req.URL.Redacted(), err)
	}
	return nil
}

var errRedirect = errors.New("redirects of an issuer are not followed")
