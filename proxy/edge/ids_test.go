package edge

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/script/durable"
)

func key(id string) durable.Key { return durable.Key{ID: id, Secret: bytes.Repeat([]byte(id[:1]), 32)} }

func ring(t *testing.T, ids ...string) *durable.Ring {
	t.Helper()
	var keys []durable.Key
	for _, id := range ids {
		keys = append(keys, key(id))
	}
	r, err := durable.NewSeal(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func idsSession() *IDSession {
	return &IDSession{ID: newIDs(), Principal: digestOf("https://issuer|ann"), Profile: "ops", Revision: "2025-11-25",
		Info: json.RawMessage(`{"name":"probe","version":"1"}`), Capabilities: json.RawMessage(`{"elicitation":{}}`)}
}

// TestTextSaysWhatWasSealed: everything is decoded again, and the id is bounded and valid in a header.
func TestTextSaysWhatWasSealed(t *testing.T) {
	l := NewSealer(ring(t, strings.Repeat("k", 64)), "vmcp", "REPLICA", time.Now)
	big := func(n int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"experimental":%q}`, strings.Repeat("x", n)))
	}
	for name, change := range map[string]func(*IDSession){
		"usual":                func(*IDSession) {},
		"nothing said":         func(s *IDSession) { s.Info, s.Capabilities, s.Profile = nil, nil, "" },
		"large":                func(s *IDSession) { s.Capabilities, s.Profile = big(700), strings.Repeat("p", 63) },
		"too large":            func(s *IDSession) { s.Capabilities = big(10_000) },
		"a long name":          func(s *IDSession) { s.Info = json.RawMessage(`{"name":"` + strings.Repeat(`ä`, 5000) + `"}`) },
		"a name of escapes":    func(s *IDSession) { s.Info = json.RawMessage(`{"name":"` + strings.Repeat(`\u0001`, 5000) + `"}`) },
		"a name that is none":  func(s *IDSession) { s.Info = big(5000) },
		"capabilities, longer": func(s *IDSession) { s.Capabilities, s.Info = big(maxCapabilities-20), big(220) },
	} {
		s := idsSession()
		change(s)
		text := l.Seal(s)
		if len(text) > longest || strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("%s: %d characters %q", name, len(text), text)
		}
		got, ok := l.Open(text)
		want := *s
		want.Owner, want.Issued = "REPLICA", s.Issued.Truncate(time.Second)
		if s.Elsewhere {
			want.Capabilities = nil
		}
		if !ok || cmp.Diff(&want, got) != "" {
			t.Errorf("%s: %v, %s", name, ok, cmp.Diff(&want, got))
		}
		if len(got.Info) > maxInfo || len(got.Info) > 0 && !json.Valid(got.Info) {
			t.Errorf("%s: clientInfo %s", name, got.Info)
		}
		if s.Elsewhere != (name == "too large") {
			t.Errorf("%s: the capabilities are elsewhere: %v", name, s.Elsewhere)
		}
	}
}

// TestNothingElseOpens: changed, truncated and foreign ids are refused, and other encodings of a valid one.
func TestNothingElseOpens(t *testing.T) {
	l := NewSealer(ring(t, "a"), "vmcp", "r", time.Now)
	good := l.Seal(idsSession())
	bad := []string{"", "a", good[:len(good)-1], good + "A", good + "=", " " + good, good[4:], strings.Repeat("A", longest+4), newIDs(),
		NewSealer(ring(t, "b"), "vmcp", "r", time.Now).Seal(idsSession()),
		NewSealer(ring(t, "a"), "other", "r", time.Now).Seal(idsSession()),
		base64.RawURLEncoding.EncodeToString(ring(t, "a").Encrypt(durable.SealState, "vmcp", []byte("run x"))),
		base64.RawURLEncoding.EncodeToString(ring(t, "a").Encrypt(durable.Session, "vmcp", []byte("run x"))),
	}
	for i := range good {
		for _, c := range []byte("AB_") {
			if good[i] != c {
				bad = append(bad, good[:i]+string(c)+good[i+1:])
			}
		}
	}
	for _, text := range bad {
		if s, ok := l.Open(text); ok {
			t.Errorf("%q opens: %+v", text, s)
		}
	}
}

// TestRotation: at each step of a key rotation the ids of the step before open.
func TestRotation(t *testing.T) {
	r := ring(t, "a")
	l := NewSealer(r, "vmcp", "r", time.Now)
	old := l.Seal(idsSession())
	opens := func(text string, want bool) {
		t.Helper()
		if _, ok := l.Open(text); ok != want {
			t.Errorf("opens: %v, want %v", ok, want)
		}
	}
	r.Replace([]durable.Key{key("a"), key("b")})
	opens(old, true)
	r.Replace([]durable.Key{key("b"), key("a")})
	opens(old, true)
	next := l.Seal(idsSession())
	r.Replace([]durable.Key{key("b")})
	opens(old, false)
	opens(next, true)
}

// TestReadTakesAnything: sealed bytes are decoded with care, since another version may have written them.
func TestReadTakesAnything(t *testing.T) {
	for range 20_000 {
		b := make([]byte, 34+int(randomByte())%40)
		rand.Read(b)
		b[0] = form
		for i := 33; i < len(b); i++ {
			b[i] %= 12
		}
		if s, ok := idsRead(b); ok && s.ID == "" {
			t.Fatalf("%x: %+v", b, s)
		}
	}
}

func randomByte() byte {
	var b [1]byte
	rand.Read(b[:])
	return b[0]
}

// TestAge: how long an id is valid for a session that is not in memory.
func TestAge(t *testing.T) {
	now := time.Now()
	for ago, want := range map[time.Duration]bool{0: false, 24 * time.Hour: false, 25 * time.Hour: true, -30 * time.Second: false, -2 * time.Minute: true} {
		if got := (&IDSession{Issued: now.Add(-ago)}).Expired(now); got != want {
			t.Errorf("issued %v ago: expired %v, want %v", ago, got, want)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	r, _ := durable.NewSeal([]durable.Key{key("a")})
	l := NewSealer(r, "vmcp", "REPLICA", time.Now)
	text := l.Seal(idsSession())
	b.ReportMetric(float64(len(text)), "characters")
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := l.Open(text); !ok {
			b.Fatal("does not open")
		}
	}
}
