package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// A request that a backend makes during a call (elicitation, sampling, roots) becomes a question of the run, stored and
// answered like one that its script asks. Its key is KEY/LEG/NAME: the key of the call, how often the backend has asked
// in this call before, and the backend's name of the question.
//
//	a stateless backend returns input_required               the call is suspended, and the run waits for the answers
//	one with sessions sends a request and waits              Ask: the call waits, and the run is running meanwhile
//
// A call that is made again after the process has died asks again. If the backend asks the same, it gets the stored
// answer; if it asks something else, that is another question: KEY/LEG.1/NAME.

const (
	maxQuestions     = 1000    // questions of backends in one run
	maxQuestionBytes = 8 << 20 // their size together, with the answers
)

// questions are the questions of a run, as far as this part knows them.
type questions struct {
	mu     sync.Mutex
	all    map[string]durable.Question // by key; guarded by mu, like all below
	bytes  int                         //
	open   []*open                     // calls wait for their answers
	opened chan struct{}               // closed when there is one more in open
}

// open is a question for whose answer a call waits.
type open struct {
	script.Question
	refused chan error // the client has answered with an error
}

// Question is a backend's request as a question of the run. leg is how often the backend has asked in the call before.
// A question that was asked before keeps its deadline.
func (p *Part) Question(call string, leg int, name, method string, params json.RawMessage, wait time.Duration) (script.Question, error) {
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	for n := 0; ; n++ {
		at := strconv.Itoa(leg)
		if n > 0 {
			at += "." + strconv.Itoa(n)
		}
		key := call + "/" + at + "/" + plain(name)
		old, known := p.asked.all[key]
		if known && (old.Method != method || !bytes.Equal(old.Params, params)) {
			continue
		}
		q := script.Question{Key: key, Method: method, Params: params, Deadline: old.Deadline}
		if known {
			return q, nil
		}
		q.Deadline = time.Now().Add(wait).UTC().Truncate(time.Microsecond)
		return q, p.asked.add(q)
	}
}

// add adds a question. mu is held.
func (a *questions) add(q script.Question) error {
	size := len(q.Key) + len(q.Params)
	switch {
	case len(a.all) >= maxQuestions:
		return wire.Errorf(wire.InternalError, "the run has asked %d questions already", maxQuestions)
	case a.bytes+size > maxQuestionBytes:
		return wire.Errorf(wire.InternalError, "the questions of the run have more than %d MB", maxQuestionBytes>>20)
	}
	a.bytes += size
	a.all[q.Key] = durable.Question{Key: q.Key, Method: q.Method, Params: q.Params, Deadline: q.Deadline}
	return nil
}

// plainName matches names that are used in keys unchanged; others are replaced by a digest.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

func plain(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return "~" + digest([]byte(name))
}

// digest is a name for a question without a usable one.
func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d ", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Ask makes a question of a request of a backend that waits for the response, and waits for the answer. The question is
// stored with the run before anybody is asked, and the answer before it is returned.
func (p *Part) Ask(ctx context.Context, q script.Question) (json.RawMessage, error) {
	if a := p.Answer(q.Key); a != nil {
		return a, nil
	}
	if !q.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, q.Deadline, errors.New("no answer arrived in time"))
		defer cancel()
	}
	if err := p.storeAsked(ctx, q); err != nil {
		return nil, err
	}
	l := p.journal.current()
	o := &open{Question: q, refused: make(chan error, 1)}
	p.asked.enter(o)
	defer p.asked.leave(o)
	return p.answerTo(ctx, l, o)
}

// storeAsked stores a question of a backend. While the store is away it waits, and the backend with it: an error would
// be an answer to the backend, and could fail the run.
func (p *Part) storeAsked(ctx context.Context, q script.Question) error {
	for {
		err := p.StoreQuestions(ctx, q)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, durable.ErrUnavailable):
			return storeError(p.ID, errors.Unwrap(err)) // for the backend
		}
		if err := wait(ctx, nil, retryAfter); err != nil {
			return err
		}
	}
}

// StoreQuestions stores questions of the run, before anybody is asked.
func (p *Part) StoreQuestions(ctx context.Context, asked ...script.Question) error {
	var all []durable.Question
	for _, q := range asked {
		all = append(all, durable.Question{Key: q.Key, Method: q.Method, Params: q.Params, Deadline: q.Deadline})
	}
	began := time.Now()
	l, _, err := p.journal.row(ctx)
	if err == nil {
		err = l.Ask(ctx, all...)
	}
	p.k.wrote(began, err)
	if err != nil {
		return &script.JournalError{Err: err}
	}
	return nil
}

// answerTo waits for the answer to an open question.
func (p *Part) answerTo(ctx context.Context, l durable.Lease, o *open) (json.RawMessage, error) {
	for {
		changed := p.store.Changed()
		all, err := l.Answers(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, durable.ErrUnavailable) {
			return nil, storeError(p.ID, err)
		}
		for _, q := range all {
			if q.Key == o.Key && q.Answer != nil {
				p.asked.answered(q)
				return q.Answer, nil
			}
		}
		again := time.NewTimer(lookAtAnswers)
		select {
		case <-changed:
		case <-again.C:
		case refused := <-o.refused:
			err = refused
		case <-l.Lost():
			err = errTakenOver
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		again.Stop()
		if err != nil && !errors.Is(err, durable.ErrUnavailable) {
			return nil, err
		}
	}
}

// lookAtAnswers is the interval at which answers are read if the store notifies no change.
const lookAtAnswers = 5 * time.Second

func (a *questions) enter(o *open) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = append(a.open, o)
	close(a.opened)
	a.opened = make(chan struct{})
}

func (a *questions) leave(o *open) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.open {
		if a.open[i] == o {
			a.open = append(a.open[:i:i], a.open[i+1:]...)
			return
		}
	}
}

func (a *questions) answered(q durable.Question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes += len(q.Answer)
	a.all[q.Key] = q
}

// Asking returns the questions for which calls wait, and a channel that is closed when there is one more.
func (p *Part) Asking() ([]script.Question, <-chan struct{}) {
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	var all []script.Question
	for _, o := range p.asked.open {
		all = append(all, o.Question)
	}
	return all, p.asked.opened
}

// Unanswered returns those of asked that have no answer in the store. A part knows the answers that were stored when it
// acquired the run, and those that its calls wait for. An answer to a question for which it was suspended may have been
// stored since, by another process, an operator, or a client that read the run's row; and a part that was stopped has
// not stored what it was about to ask.
func (p *Part) Unanswered(ctx context.Context, asked []script.Question) []script.Question {
	l := p.journal.current()
	if l == nil || len(asked) == 0 {
		return asked
	}
	all, err := l.Answers(ctx)
	if err != nil {
		return asked // they are asked again
	}
	var open []script.Question
	for _, q := range asked {
		if slices.ContainsFunc(all, func(a durable.Question) bool { return a.Key == q.Key && a.Answer == nil }) {
			open = append(open, q)
		}
	}
	return open
}

// Refuse answers an open question with an error of the client, and reports whether the question is open.
func (p *Part) Refuse(key string, err error) bool {
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	for _, o := range p.asked.open {
		if o.Key == key {
			select {
			case o.refused <- err:
			default:
			}
			return true
		}
	}
	return false
}

// Known returns a question of the run by its key.
func (p *Part) Known(key string) (script.Question, bool) {
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	q, ok := p.asked.all[key]
	return script.Question{Key: q.Key, Method: q.Method, Params: q.Params, Deadline: q.Deadline}, ok
}

// Answer is the answer to a question; nil if there is none.
func (p *Part) Answer(key string) json.RawMessage {
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	return p.asked.all[key].Answer
}
