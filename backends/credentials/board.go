package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Logins of principals where there are several replicas: any of them may get the next request of the client that waits,
// of the browser on the page, and of the browser that comes back. They leave each other word:
//
//	login/ID     what was asked for, and of whom: whoever has it can show the page, and begin an attempt
//	over/ID      the login is over, and how: for whoever waits for it
//	state/HASH   an attempt is under way, by the hash of its state: whose cookie may come back with it
//	back/HASH    with what the browser came back; the first counts. For the replica of the attempt, which has the verifier
//	done/HASH    how the attempt ended: for the replica that shows it
//
// An attempt ends with its replica: the person agrees once more on the page, which any other one shows.

// A Board is where replicas leave each other word.
type Board interface {
	// PostLogin leaves a text; the first one of an id stays. first reports whether this is it.
	PostLogin(ctx context.Context, id string, text []byte, life time.Duration) (first bool, err error)
	// Logins reads those texts that are there.
	Logins(ctx context.Context, ids []string) (map[string][]byte, error)
}

const (
	// lookForWord is how often is looked for what others have left.
	lookForWord = 500 * time.Millisecond
	// boardTime is how long the board may take.
	boardTime = 5 * time.Second
	// maxReading is how many pages are read from the board at one time.
	maxReading = 2
)

// notice is a text of the board.
type notice struct {
	Backend string    `json:"backend,omitempty"`
	User    *User     `json:"user,omitempty"`
	Scopes  []string  `json:"scopes,omitempty"`
	Base    string    `json:"base,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Login   string    `json:"login,omitempty"`
	Cookie  []byte    `json:"cookie,omitempty"` // its hash
	Query   string    `json:"query,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// board is what one replica leaves and waits for. A nil board is that of a process that is alone.
type board struct {
	Board
	pool    *Pool
	reading chan struct{}

	mu      sync.Mutex
	waiting map[string]func(notice) // by the id of what they wait for; guarded by mu
	looking bool                    // guarded by mu: a goroutine looks
}

func newBoard(p *Pool, b Board) *board {
	return &board{Board: b, pool: p, reading: make(chan struct{}, maxReading), waiting: map[string]func(notice){}}
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// post leaves a text. What cannot be left is logged: the login goes on at this replica.
func (b *board) post(ctx context.Context, id string, n notice) (first bool) {
	if b == nil {
		return true
	}
	text, err := json.Marshal(n)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), boardTime)
		defer cancel()
		first, err = b.PostLogin(ctx, id, text, loginTime+time.Minute)
	}
	if err != nil {
		b.pool.o.Log.Warn("the other replicas do not learn of a login", "err", err)
	}
	return first
}

// read reads a text; false for none.
func (b *board) read(ctx context.Context, id string) (n notice, ok bool) {
	if b == nil {
		return n, false
	}
	ctx, cancel := context.WithTimeout(ctx, boardTime)
	defer cancel()
	select {
	case b.reading <- struct{}{}:
		defer func() { <-b.reading }()
	case <-ctx.Done():
		return n, false
	}
	found, err := b.Logins(ctx, []string{id})
	if err != nil {
		b.pool.o.Log.Warn("what other replicas know of a login is not known here", "err", err)
	}
	text, ok := found[id]
	return n, ok && json.Unmarshal(text, &n) == nil
}

// await calls f once when a text is there.
func (b *board) await(id string, f func(notice)) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[id] = f
	if !b.looking {
		b.looking = b.pool.spawn(b.look)
	}
}

// forget ends await.
func (b *board) forget(id string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, id)
}

// look looks for what is waited for, until that is nothing.
func (b *board) look() {
	tick := time.NewTicker(lookForWord)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-b.pool.ctx.Done():
			return
		}
		ids := b.ids()
		if ids == nil {
			return
		}
		ctx, cancel := context.WithTimeout(b.pool.ctx, boardTime)
		found, err := b.Logins(ctx, ids)
		cancel()
		if err != nil {
			continue // until the store is back
		}
		for id, text := range found {
			b.mu.Lock()
			f := b.waiting[id]
			delete(b.waiting, id)
			b.mu.Unlock()
			var n notice
			if f != nil && json.Unmarshal(text, &n) == nil {
				f(n)
			}
		}
	}
}

// ids are what is waited for; nil: nothing, and look ends.
func (b *board) ids() (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.waiting {
		ids = append(ids, id)
	}
	b.looking = ids != nil
	return ids
}

// announce leaves word of a login, and waits for its end elsewhere.
func (l *logins) announce(ctx context.Context, n *PendingLogin) {
	b := l.pool.board()
	b.post(ctx, "login/"+n.id, notice{Backend: n.backend.Name, User: n.need.User, Scopes: n.need.Scopes, Base: n.base, Until: time.Now().Add(loginTime)})
	l.awaitEnd(b, n)
}

func (l *logins) awaitEnd(b *board, n *PendingLogin) {
	b.await("over/"+n.id, func(how notice) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.end(n, errorOf(how))
	})
}

func errorOf(n notice) error {
	if n.Error == "" {
		return nil
	}
	return errors.New(n.Error)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// elsewhere is a login that was asked for at another replica; nil for none, or one that is over.
func (l *logins) elsewhere(ctx context.Context, id string) *PendingLogin {
	b := l.pool.board()
	if b == nil || len(id) != idLength {
		return nil
	}
	word, ok := b.read(ctx, "login/"+id)
	if !ok || word.User == nil || !time.Now().Before(word.Until) {
		return nil
	}
	if _, over := b.read(ctx, "over/"+id); over {
		return nil
	}
	l.pool.mu.Lock()
	backend, ok := l.pool.at[word.Backend]
	store := l.pool.kept
	l.pool.mu.Unlock()
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if there := l.all[id]; there != nil || len(l.all) >= maxPending {
		return there
	}
	n := &PendingLogin{logins: l, id: id, backend: backend, need: LoginNeeded{Backend: word.Backend, User: word.User, Scopes: word.Scopes}, store: store, base: word.Base, done: make(chan struct{})}
	n.expiry = time.AfterFunc(time.Until(word.Until), func() { l.expire(n) })
	l.all[id] = n
	l.awaitEnd(b, n)
	return n
}

// idLength is that of an id, which is a rand.Text.
const idLength = 26

// cameElsewhere is an attempt of another replica for which a browser has come back here; nil for none.
func (l *logins) cameElsewhere(r *http.Request, state string) *attempt {
	b := l.pool.board()
	if b == nil || state == "" {
		return nil
	}
	hash := hashOf(state)
	word, ok := b.read(r.Context(), "state/"+hash)
	if !ok || word.Backend != r.PathValue("name") {
		return nil
	}
	n := l.find(r.Context(), word.Login)
	if n == nil {
		return nil
	}
	cookie, err := r.Cookie(n.cookieName())
	if err != nil || hashOf(cookie.Value) != string(word.Cookie) {
		return nil
	}
	a := &attempt{of: n, over: make(chan struct{})}
	b.await("done/"+hash, func(how notice) {
		a.err = errorOf(how)
		close(a.over)
	})
	a.release = func() { b.forget("done/" + hash) }
	if !b.post(r.Context(), "back/"+hash, notice{Query: r.URL.RawQuery}) {
		a.release()
		return nil
	}
	return a
}

// find is a login that is not over, asked for here or elsewhere; nil for none.
func (l *logins) find(ctx context.Context, id string) *PendingLogin {
	l.mu.Lock()
	n := l.all[id]
	over := n != nil && n.over
	l.mu.Unlock()
	switch {
	case over:
		return nil
	case n == nil:
		return l.elsewhere(ctx, id)
	}
	return n
}

// underWay leaves word of an attempt whose page is about to be opened, and waits for its browser elsewhere.
func (l *logins) underWay(ctx context.Context, a *attempt, state string) (done func()) {
	b, hash := l.pool.board(), hashOf(state)
	if b == nil {
		return func() {}
	}
	a.hash = hash
	b.post(ctx, "state/"+hash, notice{Backend: a.of.backend.Name, Login: a.of.id, Cookie: []byte(hashOf(a.cookie))})
	b.await("back/"+hash, func(word notice) {
		q, err := url.ParseQuery(word.Query)
		l.mu.Lock()
		defer l.mu.Unlock()
		if err == nil && l.returns[state] == a {
			delete(l.returns, state)
			a.back <- q
		}
	})
	return func() { b.forget("back/" + hash) }
}

// ended leaves word of how an attempt has ended, and its login if that was the newest.
func (l *logins) ended(a *attempt, last bool) {
	b := l.pool.board()
	if b == nil {
		return
	}
	how := notice{Error: l.hidden(a.err)}
	if a.hash != "" {
		b.post(l.pool.ctx, "done/"+a.hash, how)
	}
	if last {
		b.post(l.pool.ctx, "over/"+a.of.id, how)
	}
}

// hidden is an error without secrets.
func (l *logins) hidden(err error) string {
	text := textOf(err)
	if s := l.pool.o.Secrets; s != nil {
		text = s.Text(text)
	}
	return text
}

// board is where other replicas leave word; nil: there are none.
func (p *Pool) board() *board {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.words
}
