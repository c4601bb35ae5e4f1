package durable

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// This part of the package sends a notification when a run needs somebody: by an HTTP request, or by a call of a tool. A
// notification has the id, the tool and the new state of the run, and none of its contents.
//
// Events stay in the outbox of the store until they were delivered. So each is delivered at least once, also when
// this process ends in between, and may be delivered twice, with the same id.

const (
	pollInterval = time.Second      // how often the outbox is read
	sendTimeout  = 10 * time.Second // of one event
	batchSize    = 16               // events that are claimed at once
	firstBackoff = 2 * time.Second  // after the first failure; doubled after each further one
	maxBackoff   = 10 * time.Minute
	maxResponse  = 64 << 10 // bytes that are read of a response
)

// NotifyOptions are those of Run.
type NotifyOptions struct {
	Outbox Outbox
	Log    *slog.Logger
	// Send sends one event; it is called again later when it returns an error.
	Send func(ctx context.Context, e Event) error
	// Changed returns a channel that is closed when the outbox may have new events; nil: the outbox is
	// only polled.
	Changed func() <-chan struct{}
	// Poll is how often the outbox is read; each second where it is 0.
	Poll time.Duration
}

// Run sends the events of the outbox until ctx ends.
func Notify(ctx context.Context, o NotifyOptions) {
	if o.Poll == 0 {
		o.Poll = pollInterval
	}
	tick := time.NewTicker(o.Poll)
	defer tick.Stop()
	for {
		var changed <-chan struct{}
		if o.Changed != nil {
			changed = o.Changed()
		}
		o.sendDue(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changed:
		}
	}
}

// sendDue sends the events that are due now.
func (o NotifyOptions) sendDue(ctx context.Context) {
	// No other process sends these events for as long as sending all of them may take.
	events, err := o.Outbox.Claim(ctx, batchSize, batchSize*sendTimeout+time.Minute)
	if err != nil {
		if ctx.Err() == nil {
			o.Log.Warn("the outbox of runs cannot be read", "err", err)
		}
		return
	}
	for _, e := range events {
		if ctx.Err() != nil {
			_ = o.Outbox.Later(context.WithoutCancel(ctx), e, 0)
			continue
		}
		if err := o.record(context.WithoutCancel(ctx), e, o.send(ctx, e)); err != nil {
			o.Log.Warn("the outbox of runs cannot be written", "run", e.Run, "err", err)
		}
	}
}

func (o NotifyOptions) send(ctx context.Context, e Event) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return o.Send(ctx, e)
}

// record removes an event that was sent from the outbox, or schedules the next attempt of one that was not.
func (o NotifyOptions) record(ctx context.Context, e Event, failed error) error {
	if failed == nil {
		return o.Outbox.Sent(ctx, e)
	}
	wait := maxBackoff
	if e.Attempts < 10 {
		wait = min(maxBackoff, firstBackoff<<(e.Attempts-1))
	}
	o.Log.Warn("a notification of a run was not delivered", "run", e.Run, "tool", e.Tool, "state", string(e.State), "attempt", e.Attempts, "again", wait, "err", failed)
	return o.Outbox.Later(ctx, e, wait)
}

// Message is the JSON body that is sent for an event.
type Message struct {
	Type string    `json:"type"` // "run." and the state
	Run  string    `json:"run"`
	Tool string    `json:"tool"`
	Time time.Time `json:"time"`
}

// Of returns the message for an event, and the id of the message: the same for each attempt.
func Of(e Event) (id string, m Message) {
	return fmt.Sprintf("%s.%s.%d", e.Run, e.State, e.Epoch), Message{Type: "run." + string(e.State), Run: e.Run, Tool: e.Tool, Time: e.At.UTC()}
}

// Webhook returns a function that posts events to a URL, as Standard Webhooks specifies: with the headers webhook-id,
// webhook-timestamp and, where ring is not nil, webhook-signature: for every key of the ring "v1," and the HMAC-SHA-256
// of "id.timestamp.body" in base64. Redirects are not followed, and every status but 2xx is a failure.
func Webhook(url string, ring *Ring) func(context.Context, Event) error {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(ctx context.Context, e Event) error {
		id, m := Of(e)
		body, err := json.Marshal(m)
		if err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return errors.New("the URL cannot be used") // it may hold a password
		}
		at := strconv.FormatInt(time.Now().Unix(), 10)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Webhook-Id", id)
		r.Header.Set("Webhook-Timestamp", at)
		if ring != nil {
			r.Header.Set("Webhook-Signature", signatures(ring, id+"."+at+"."+string(body)))
		}
		resp, err := client.Do(r)
		if err != nil {
			return withoutURL(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxResponse)) // so that the connection is used again
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("the webhook answered %s, not 2xx", resp.Status)
		}
		return nil
	}
}

func signatures(ring *Ring, text string) string {
	var all []string
	for _, mac := range ring.MACs(notify, []byte(text)) {
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac))
	}
	return strings.Join(all, " ")
}

// withoutURL returns the cause of a failed request, without its URL, which may have a token.
func withoutURL(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}
