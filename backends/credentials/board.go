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

// Logins of principals with several replicas: any replica may receive the next request of the waiting client, of the
// browser on the login page, and of the browser that returns from the authorization server. Replicas exchange notices
// through a table, each with a key and a lifetime:
//
//	login/ID     a login is pending: backend, principal, scopes. Any replica can show its page and begin an attempt
//	over/ID      the login has ended, with its error if any. Read by replicas with a waiting client
//	state/HASH   an attempt has begun; HASH is that of its OAuth state. Has the hash of the browser's cookie
//	back/HASH    the query with which the browser returned; the first one counts. Read by the replica of the attempt,
//	             which alone has the PKCE verifier
//	done/HASH    the attempt has ended, with its error if any. Read by the replica that has the returned browser
//
// An attempt ends with the process of its replica: the person then agrees again on the page, which any replica shows.

// A Board is a table of notices that all replicas read and write.
type Board interface {
	// PostLogin inserts a text for the time life; the first one of an id stays. first reports whether it is
	// this one.
	PostLogin(ctx context.Context, id string, text []byte, life time.Duration) (first bool, err error)
	// Logins returns the texts of those ids that have one.
	Logins(ctx context.Context, ids []string) (map[string][]byte, error)
}

const (
	// pollInterval is the interval at which the board is polled for awaited notices.
	pollInterval = 500 * time.Millisecond
	// boardTime bounds one request to the board.
	boardTime = 5 * time.Second
	// maxReading bounds the concurrent reads of the board for pages.
	maxReading = 2
)

// notice is one text of the board.
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

// board has the notices that one replica waits for. A nil board is that of a single process.
type board struct {
	Board
	pool    *Pool
	reading chan struct{}

	mu      sync.Mutex
	waiting map[string]func(notice) // callbacks by the id of the awaited notice; guarded by mu
	looking bool                    // guarded by mu: poll is running
}

func newBoard(p *Pool, b Board) *board {
	return &board{Board: b, pool: p, reading: make(chan struct{}, maxReading), waiting: map[string]func(notice){}}
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// post writes a notice. A failure is logged, and the login continues at this replica.
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
		b.pool.o.Log.Warn("login not posted to the other replicas", "err", err)
	}
	return first
}

// read reads a notice; ok is false when there is none.
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
		b.pool.o.Log.Warn("logins of other replicas not read", "err", err)
	}
	text, ok := found[id]
	return n, ok && json.Unmarshal(text, &n) == nil
}

// await calls f once when the notice of id has been posted.
func (b *board) await(id string, f func(notice)) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[id] = f
	if !b.looking {
		b.looking = b.pool.spawn(b.poll)
	}
}

// forget cancels await.
func (b *board) forget(id string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, id)
}

// poll reads the awaited notices from the board until none is awaited.
func (b *board) poll() {
	tick := time.NewTicker(pollInterval)
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

// ids returns the awaited ids; nil when there are none, and poll then ends.
func (b *board) ids() (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.waiting {
		ids = append(ids, id)
	}
	b.looking = ids != nil
	return ids
}

// announce posts a pending login, and awaits its end at another replica.
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

// elsewhere returns a login that another replica began; nil when there is none or it has ended.
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

// idLength is the length of an id, made by rand.Text.
const idLength = 26

// cameElsewhere returns the attempt of another replica whose browser has returned to this one; nil when there
// is none.
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

// find returns the pending login with an id, of this or another replica; nil when there is none.
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

// announceAttempt posts an attempt whose browser is about to be redirected, and awaits its return at another
// replica.
func (l *logins) announceAttempt(ctx context.Context, a *attempt, state string) (done func()) {
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

// ended posts how an attempt has ended, and its login if the attempt was the newest.
func (l *logins) ended(a *attempt, last bool) {
	b := l.pool.board()
	if b == nil {
		return
	}
	how := notice{Error: l.hidden(a.err)}
	if last {
		b.post(l.pool.ctx, "over/"+a.of.id, how)
	}
	if a.hash != "" { // last: the page at another replica is written then
		b.post(l.pool.ctx, "done/"+a.hash, how)
	}
}

// hidden returns the text of an error without secrets.
func (l *logins) hidden(err error) string {
	text := textOf(err)
	if s := l.pool.o.Secrets; s != nil {
		text = s.Text(text)
	}
	return text
}

// board returns the board of the replicas; nil for a single process.
func (p *Pool) board() *board {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.words
}
