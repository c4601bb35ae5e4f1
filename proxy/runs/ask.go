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
	store "github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/script"
)

// What a backend asks in the middle of a call is a question of the run, stored and answered like one that its script asks.
// Its key is KEY/LEG/NAME: the key of the call, how often the backend had asked in this call before, and what the backend
// calls the question.
//
//	a stateless backend ends its answer with the questions   the call is held, and the run waits for their answers
//	one with sessions waits for them                         Ask: so does the call, and the run is running meanwhile
//
// A call that is made again after the process has died is asked again. Where the backend then asks the same, the answer
// that has come is given once more; where it asks something else, it is another question: KEY/LEG.1/NAME.

const (
	maxQuestions     = 1000    // questions of backends in one run
	maxQuestionBytes = 8 << 20 // of them, with their answers
)

// questions are those of a run, as far as this part knows them.
type questions struct {
	mu     sync.Mutex
	all    map[string]store.Question // by key; guarded by mu, like all below
	bytes  int                       //
	open   []*open                   // that calls wait for
	opened chan struct{}             // closed at the next one
}

// open is a question that a call waits for.
type open struct {
	script.Question
	refused chan error // the client has answered with an error
}

// Question is a question of a backend as the run asks it. leg is how often the backend has asked in the call already.
// One that was asked before has the deadline that it had.
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

// add notes a question. mu is held.
func (a *questions) add(q script.Question) error {
	size := len(q.Key) + len(q.Params)
	switch {
	case len(a.all) >= maxQuestions:
		return wire.Errorf(wire.InternalError, "the run has asked %d questions already", maxQuestions)
	case a.bytes+size > maxQuestionBytes:
		return wire.Errorf(wire.InternalError, "the questions of the run have more than %d MB", maxQuestionBytes>>20)
	}
	a.bytes += size
	a.all[q.Key] = store.Question{Key: q.Key, Method: q.Method, Params: q.Params, Deadline: q.Deadline}
	return nil
}

// Names that a key has as they are; of others it has a digest.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

func plain(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return "~" + Digest([]byte(name))
}

// Digest names a question that has no name, or none that is fit for one.
func Digest(parts ...[]byte) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d ", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Ask waits for the answer to a question of a backend that waits for it, too. It is stored with the run before anybody is
// asked, and so is the answer before it is returned, wherever it comes from.
func (p *Part) Ask(ctx context.Context, q script.Question) (json.RawMessage, error) {
	if a := p.Answer(q.Key); a != nil {
		return a, nil
	}
	if !q.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, q.Deadline, errors.New("nobody has answered in time"))
		defer cancel()
	}
	if err := p.Keep(ctx, q); err != nil {
		return nil, storeError(p.ID, errors.Unwrap(err)) // for the backend
	}
	l := p.journal.held()
	o := &open{Question: q, refused: make(chan error, 1)}
	p.asked.enter(o)
	defer p.asked.leave(o)
	return p.answerTo(ctx, l, o)
}

// Keep stores questions of the run before anybody is asked.
func (p *Part) Keep(ctx context.Context, asked ...script.Question) error {
	var all []store.Question
	for _, q := range asked {
		all = append(all, store.Question{Key: q.Key, Method: q.Method, Params: q.Params, Deadline: q.Deadline})
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
func (p *Part) answerTo(ctx context.Context, l store.Lease, o *open) (json.RawMessage, error) {
	for {
		changed := p.store.Changed()
		all, err := l.Answers(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
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
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			return nil, err
		}
	}
}

// lookAtAnswers is how often answers are looked for where the store announces no change.
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

func (a *questions) answered(q store.Question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes += len(q.Answer)
	a.all[q.Key] = q
}

// Asking returns the questions that calls wait for, and a channel that is closed when there is one more.
func (p *Part) Asking() ([]script.Question, <-chan struct{}) {
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	var all []script.Question
	for _, o := range p.asked.open {
		all = append(all, o.Question)
	}
	return all, p.asked.opened
}

// Unanswered are those of some open questions that have no answer in the store: one may have come a moment ago.
func (p *Part) Unanswered(ctx context.Context, asked []script.Question) []script.Question {
	l := p.journal.held()
	if l == nil {
		return asked
	}
	all, err := l.Answers(ctx)
	if err != nil {
		return asked // they are asked once more
	}
	return slices.DeleteFunc(asked, func(q script.Question) bool {
		return slices.ContainsFunc(all, func(a store.Question) bool { return a.Key == q.Key && a.Answer != nil })
	})
}

// Refuse answers an open question with an error of the client, and reports whether there is one.
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

// Known is a question that the run has asked.
func (p *Part) Known(key string) (script.Question, bool) {
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	q, ok := p.asked.all[key]
	return script.Question{Key: q.Key, Method: q.Method, Params: q.Params, Deadline: q.Deadline}, ok
}

// Answer is what somebody has answered to a question; nil while nobody has.
func (p *Part) Answer(key string) json.RawMessage {
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	return p.asked.all[key].Answer
}
