//go:build suites

package cluster

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/script/durable/runstest"
)

// testHostileIDs: for every invalid id of a session the response is the same, byte for byte; likewise for every invalid requestState. The
// peers' port serves no client.
func testHostileIDs(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, clustered)
	other := newWorld(t, pg, clustered) // another cluster, over the same database
	other.replicas[0].start()
	other.replicas[0].awaitReady()
	good := session(t, w.replicas[0].url()).Session()
	over := session(t, w.replicas[1].url()).Session()
	if code, body := request(t, http.MethodDelete, w.replicas[1].url(), over, ""); code/100 != 2 {
		t.Fatalf("DELETE: %d %s", code, body)
	}
	ids := []string{over, session(t, other.replicas[0].url()).Session(), "x", strings.Repeat("A", 2048), strings.Repeat("A", 5000), good + "A", good + "=", good + good}
	ids = append(ids, changed(good)...)
	for len(ids) < 60 {
		b := make([]byte, len(ids)*5)
		_, _ = rand.Read(b)
		ids = append(ids, base64.RawURLEncoding.EncodeToString(b))
	}
	seen := map[string]int{}
	for i, id := range ids {
		code, body := post(t, w.replicas[i%3].url(), id, listing)
		if seen[fmt.Sprint(code, body)]++; code != http.StatusNotFound {
			t.Errorf("id %.80q: %d %s", id, code, body)
		}
	}
	if len(seen) != 1 {
		t.Errorf("%d wrong ids have %d answers: %v", len(ids), len(seen), seen)
	}
	if code, body := post(t, w.replicas[2].url(), good, listing); code != http.StatusOK {
		t.Errorf("the session itself: %d %s", code, body)
	}
	w.hostileStates()
	for i, r := range w.replicas {
		for _, path := range []string{"/mcp", "/peer", "/readyz", "/"} {
			if code, body := post(t, "http://"+r.peers+path, good, listing); code != http.StatusUnauthorized {
				t.Errorf("a client at the peers' port of replica %d, %s: %d %s", i, path, code, body)
			}
		}
	}
}

// hostileStates sends 30 changed values of requestState with answers, to any replica.
func (w *world) hostileStates() {
	t := w.t
	r := w.newRun(w.replicas[0].url(), "seq", "hostile")
	a, err := r.call(t.Context(), "")
	if err != nil || a.RequestState == "" {
		t.Fatalf("%+v, %v; want a question", a, err)
	}
	more, seen := r.next(a), map[string]int{}
	states := changed(a.RequestState)
	for i := range 30 {
		if i >= len(states) {
			states = append(states, rand.Text())
		}
		r.client.URL = w.replicas[i%3].url()
		_, err := r.call(t.Context(), strings.Replace(more, a.RequestState, states[i], 1))
		if seen[fmt.Sprint(err)]++; err == nil || !strings.Contains(err.Error(), "-32602") {
			t.Errorf("state %.60q: %v, want -32602", states[i], err)
		}
	}
	if len(seen) != 1 {
		t.Errorf("30 wrong states have %d answers: %v", len(seen), seen)
	}
	if err := r.from(t.Context(), more); err != nil {
		t.Errorf("the state itself: %v", err)
	} else if err := r.check(); err != nil {
		t.Error(err)
	}
}

// changed returns variants of a text: with another character at many places, and cut at many. The last character is replaced by
// all that a lax decoder would decode to the same value.
func changed(text string) (all []string) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	put := func(i int, c byte) {
		if text[i] != c {
			all = append(all, text[:i]+string(c)+text[i+1:])
		}
	}
	for i := range 12 {
		at := i * len(text) / 12
		put(at, 'A')
		put(at, 'z')
		all = append(all, text[:at+1])
	}
	last := strings.IndexByte(alphabet, text[len(text)-1])
	for bit := range 4 {
		put(len(text)-1, alphabet[last^(1<<bit)])
	}
	return all
}
