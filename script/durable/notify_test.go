package durable_test

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// request is one that a webhook has received.
type request struct {
	header http.Header
	body   []byte
}

// A webhook that fails at first is called again with the same id, and with a signature by every key of the ring.
func TestWebhook(t *testing.T) {
	got := make(chan request, 10)
	statuses := []int{500, 302, 200, 204}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		status := statuses[0]
		statuses = statuses[1:]
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		got <- request{r.Header, body}
	}))
	defer hook.Close()
	secret := bytes.Repeat([]byte("k"), 32)
	ring, err := durable.NewSeal([]durable.Key{{ID: "new", Secret: bytes.Repeat([]byte("n"), 32)}, {ID: "old", Secret: secret}})
	if err != nil {
		t.Fatal(err)
	}
	store := durable.NewMemory(durable.Options{Notify: []durable.State{durable.Waiting, durable.Failed}}, nil)
	id := waiting(t, store)

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	outbox := hasty{store}
	wg.Go(func() {
		durable.Notify(ctx, durable.NotifyOptions{Outbox: outbox, Log: slog.New(slog.DiscardHandler), Send: durable.Webhook(hook.URL, ring), Poll: time.Millisecond})
	})
	var first request
	for i := range 3 {
		r := <-got
		if i == 0 {
			first = r
		}
		if r.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") || !bytes.Equal(r.body, first.body) {
			t.Errorf("attempt %d is %v %s, want the same message", i+1, r.header, r.body)
		}
	}
	var m map[string]string
	if err := json.Unmarshal(first.body, &m); err != nil || m["run"] != id || m["tool"] != "onboard" || m["type"] != "run.waiting" || len(m) != 4 {
		t.Errorf("the message is %s, %v", first.body, err)
	}
	// The receiver checks the signature with the derived key.
	key, err := hkdf.Key(sha256.New, secret, nil, "vmcp/notify", 32)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(first.header.Get("Webhook-Id") + "." + first.header.Get("Webhook-Timestamp") + "." + string(first.body)))
	signed := strings.Fields(first.header.Get("Webhook-Signature"))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); len(signed) != 2 || signed[1] != want {
		t.Errorf("signatures %v, want two and %s the second", signed, want)
	}
	lease, err := store.Acquire(t.Context(), id, "me")
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.End(t.Context(), durable.Outcome{State: durable.Failed, Error: "top secret"}); err != nil {
		t.Fatal(err)
	}
	last := <-got
	if !strings.Contains(string(last.body), "run.failed") || strings.Contains(string(last.body), "secret") || last.header.Get("Webhook-Id") == first.header.Get("Webhook-Id") {
		t.Errorf("the second event is %v %s", last.header, last.body)
	}
	stop()
	wg.Wait()
	if left, err := store.Claim(t.Context(), 10, 0); err != nil || len(left) != 0 {
		t.Errorf("in the outbox: %+v, %v", left, err)
	}
}

// hasty is an outbox whose events are retried at once.
type hasty struct{ durable.Outbox }

func (h hasty) Later(ctx context.Context, e durable.Event, in time.Duration) error {
	return h.Outbox.Later(ctx, e, min(in, time.Millisecond))
}

// waiting begins a run that waits for the answer to a question.
func waiting(t *testing.T, store durable.Store) string {
	t.Helper()
	r, _, err := store.Start(t.Context(), durable.Run{Tool: "onboard", Args: json.RawMessage(`{"secret": 1}`)})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := store.Acquire(t.Context(), r.ID, "me")
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.End(t.Context(), durable.Outcome{State: durable.Waiting}); err != nil {
		t.Fatal(err)
	}
	return r.ID
}
