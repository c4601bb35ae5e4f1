// Package notify notifies people of runs that need them: by an HTTP request, or by a call of a tool. It
// says that a run waits, is in doubt or has failed, and nothing of what is in it.
//
// Events stay in the outbox of the store until they were delivered, so each is delivered at least once, also when
// this process ends in between, and may be delivered twice: its id stays the same.
package notify

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

	"github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/seal"
)

const (
	look      = time.Second // how often the outbox is looked into
	within    = 10 * time.Second
	atOnce    = 16
	firstWait = 2 * time.Second // behind the first failure; twice as long behind each further one
	mostWait  = 10 * time.Minute
	maxAnswer = 64 << 10 // what is read of an answer
)

// Options say who is notified.
type Options struct {
	Outbox runs.Outbox
	Log    *slog.Logger
	// Tell tells of one event.
	Tell func(ctx context.Context, e runs.Event) error
	// Changed returns a channel that is closed when the outbox may have something new; nil: it is
	// only looked into.
	Changed func() <-chan struct{}
	// Look is how often the outbox is looked into; each second where it is 0.
	Look time.Duration
}

// Run tells of what is in the outbox until ctx ends.
func Run(ctx context.Context, o Options) {
	if o.Look == 0 {
		o.Look = look
	}
	tick := time.NewTicker(o.Look)
	defer tick.Stop()
	for {
		var changed <-chan struct{}
		if o.Changed != nil {
			changed = o.Changed()
		}
		o.tellAll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changed:
		}
	}
}

// tellAll tells of what is due now.
func (o Options) tellAll(ctx context.Context) {
	// Nobody else tries for as long as all of these may take.
	events, err := o.Outbox.Claim(ctx, atOnce, atOnce*within+time.Minute)
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
		if err := o.settle(context.WithoutCancel(ctx), e, o.tell(ctx, e)); err != nil {
			o.Log.Warn("the outbox of runs cannot be written", "run", e.Run, "err", err)
		}
	}
}

func (o Options) tell(ctx context.Context, e runs.Event) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return o.Tell(ctx, e)
}

// settle forgets an event that was told, and puts off another one.
func (o Options) settle(ctx context.Context, e runs.Event, failed error) error {
	if failed == nil {
		return o.Outbox.Told(ctx, e)
	}
	wait := mostWait
	if e.Attempts < 10 {
		wait = min(mostWait, firstWait<<(e.Attempts-1))
	}
	o.Log.Warn("nobody could be told of a run", "run", e.Run, "tool", e.Tool, "state", string(e.State), "attempt", e.Attempts, "again", wait, "err", failed)
	return o.Outbox.Later(ctx, e, wait)
}

// Message is what is sent of an event.
type Message struct {
	Type string    `json:"type"` // "run." and the state
	Run  string    `json:"run"`
	Tool string    `json:"tool"`
	Time time.Time `json:"time"`
}

// Of is the message about an event, and its id.
func Of(e runs.Event) (id string, m Message) {
	return fmt.Sprintf("%s.%s.%d", e.Run, e.State, e.Epoch), Message{Type: "run." + string(e.State), Run: e.Run, Tool: e.Tool, Time: e.At.UTC()}
}

// Webhook returns what posts events to a URL, as Standard Webhooks has it: the headers webhook-id,
// webhook-timestamp and, where there is a ring, webhook-signature, "v1," and the HMAC-SHA-256 in base64
// of "id.timestamp.body" for every key. Redirects are not followed, and every status but 2xx is a failure.
func Webhook(url string, ring *seal.Ring) func(context.Context, runs.Event) error {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(ctx context.Context, e runs.Event) error {
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
		answer, err := client.Do(r)
		if err != nil {
			return withoutURL(err)
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer)) // so that the connection is used again
		if answer.StatusCode/100 != 2 {
			return fmt.Errorf("the answer is %s", answer.Status)
		}
		return nil
	}
}

func signatures(ring *seal.Ring, text string) string {
	var all []string
	for _, mac := range ring.MACs(seal.Notify, []byte(text)) {
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac))
	}
	return strings.Join(all, " ")
}

// withoutURL is the cause of a failed request: its URL may hold a token.
func withoutURL(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}
