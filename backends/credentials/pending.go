package credentials

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/config"
)

// Logins of principals.
//
// A principal whose call needs a login is asked to open a page of this endpoint:
//
//	pending ──(the person agrees on the page)──► attempt ──(the browser returns)──► over
//
// The page shows the principal and the backend, and its URL has a random id. The browser that agrees
// gets a cookie and is redirected to the authorization server. Only that browser can return with a
// code, once, with the state of that attempt: neither can a person be sent to the authorization
// server without seeing the page, nor can another browser submit a code. The grant is stored for the
// principal who was asked, whatever account the person uses.
//
// A login is over when an attempt has succeeded or failed, or after loginTime. It is kept until
// loginTime has passed, so that its outcome can be asked for.

const (
	// loginTime bounds a login, from the call that asked for it.
	loginTime = 10 * time.Minute
	// pageTime bounds how long a page waits for the authorization server.
	pageTime = 30 * time.Second
	// maxPending bounds the logins in memory, and maxPendingOf those of one principal that are not over.
	maxPending   = 1000
	maxPendingOf = 50
	// maxAttempts bounds the attempts of one login: each sends requests to the authorization server.
	maxAttempts = 10
	// loginPages is the path below which the login pages are, and CallbackPages that of the redirect URIs.
	loginPages    = "/oauth/login/"
	CallbackPages = "/oauth/callback/"
)

// logins has the logins that principals were asked for.
type logins struct {
	pool *Pool

	mu      sync.Mutex
	all     map[string]*PendingLogin // guarded by mu, by id
	returns map[string]*attempt      // guarded by mu, by the state of the authorization request
}

// A PendingLogin is a login that a principal was asked for.
type PendingLogin struct {
	logins  *logins
	id      string
	backend config.Backend
	need    LoginNeeded
	store   Keeper
	base    string // the URL of this endpoint, without a path
	done    chan struct{}
	expiry  *time.Timer

	attempt *attempt // guarded by logins.mu: the newest; nil before the first
	tries   int      // guarded by logins.mu: number of attempts
	over    bool     // guarded by logins.mu: done is closed
	err     error    // set before done is closed
}

// An attempt is one authorization request of a login, from the person's consent to the stored grant.
type attempt struct {
	of     *PendingLogin
	cancel context.CancelFunc
	cookie string
	hash   string          // of the state; "" before it is known, and in a single process
	page   chan string     // cap 1: the authorization URL
	back   chan url.Values // cap 1: the query of the browser's return
	over   chan struct{}   // closed when err is set
	err    error

	release func() // stops waiting for an attempt of another replica; nil for one of this process
}

var errManyLogins = errors.New("too many logins are pending; finish one, or retry later")

// Begin creates a login for a principal, or returns the pending one with the same backend, base
// and scopes. base is the external URL of this endpoint, without a path.
func (p *Pool) Begin(b config.Backend, need LoginNeeded, base string) (*PendingLogin, error) {
	p.mu.Lock()
	store := p.kept
	p.mu.Unlock()
	if store == nil {
		return nil, errors.New("no tokenStore is configured")
	}
	n, there, err := p.logins.add(b, need, base, store)
	if err == nil && !there {
		p.logins.announce(p.ctx, n)
	}
	return n, err
}

// add creates a login unless an equal one is pending.
func (l *logins) add(b config.Backend, need LoginNeeded, base string, store Keeper) (n *PendingLogin, there bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := 0
	for _, there := range l.all {
		if there.over || there.need.User.Key != need.User.Key {
			continue
		}
		if there.backend.Name == b.Name && there.base == base && len(union(there.need.Scopes, need.Scopes)) == len(there.need.Scopes) {
			return there, true, nil
		}
		open++
	}
	if open >= maxPendingOf || len(l.all) >= maxPending {
		return nil, false, errManyLogins
	}
	n = &PendingLogin{logins: l, id: rand.Text(), backend: b, need: need, store: store, base: base, done: make(chan struct{})}
	n.expiry = time.AfterFunc(loginTime, func() { l.expire(n) })
	l.all[n.id] = n
	return n, false, nil
}

// Pending returns the login of a principal with an id; nil when there is none.
func (p *Pool) Pending(id string, u *User) *PendingLogin {
	p.logins.mu.Lock()
	n := p.logins.all[id]
	p.logins.mu.Unlock()
	if n == nil {
		n = p.logins.elsewhere(p.ctx, id)
	}
	if n == nil || u == nil || n.need.User.Key != u.Key {
		return nil
	}
	return n
}

// ID is the random id of the login. It is part of its URL.
func (n *PendingLogin) ID() string { return n.id }

// URL is the URL of the login's page, for the person to open.
func (n *PendingLogin) URL() string {
	return n.base + loginPages + url.PathEscape(n.backend.Name) + "?id=" + n.id
}

// Done is closed when the login is over; Err then is its outcome.
func (n *PendingLogin) Done() <-chan struct{} { return n.done }

// Err is why the login failed; nil when it succeeded. It is valid once Done is closed.
func (n *PendingLogin) Err() error { return n.err }

// end ends a login. mu is held.
func (l *logins) end(n *PendingLogin, err error) {
	if n.over {
		return
	}
	n.over, n.err = true, err
	close(n.done)
	if n.attempt != nil {
		n.attempt.cancel()
	}
}

// expire ends a login whose time is over, and removes it.
func (l *logins) expire(n *PendingLogin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(n, fmt.Errorf("no login within %s", loginTime))
	delete(l.all, n.id)
	l.pool.board().forget("over/" + n.id)
}

// close ends all logins.
func (l *logins) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.all {
		n.expiry.Stop()
		l.end(n, errors.New("closed"))
	}
	clear(l.all)
}

// begin starts an attempt and cancels the previous one.
func (l *logins) begin(n *PendingLogin) (*attempt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.over {
		return nil, errors.New("this login is over")
	}
	if n.tries++; n.tries > maxAttempts {
		return nil, errors.New("this login was begun too often; repeat the call that asked for it in a few minutes")
	}
	if n.attempt != nil {
		n.attempt.cancel()
	}
	ctx, cancel := context.WithTimeout(l.pool.ctx, loginTime)
	a := &attempt{of: n, cancel: cancel, cookie: rand.Text(), page: make(chan string, 1), back: make(chan url.Values, 1), over: make(chan struct{})}
	if !l.pool.spawn(func() { l.run(ctx, a) }) {
		cancel()
		return nil, errors.New("closed")
	}
	n.attempt = a
	return a, nil
}

// run performs the login of an attempt and stores its grant.
func (l *logins) run(ctx context.Context, a *attempt) {
	defer a.cancel()
	n := a.of
	a.err = n.login(ctx, a)
	if a.err == nil {
		l.pool.o.Log.Info("a principal has logged in", "backend", n.backend.Name, "principal", n.need.User.Key)
	}
	l.mu.Lock()
	last := n.attempt == a
	if last {
		l.end(n, a.err)
	}
	l.mu.Unlock()
	close(a.over) // last: a page that reports the outcome is written once the waiting call has it
	l.ended(a, last)
}

func (n *PendingLogin) login(ctx context.Context, a *attempt) error {
	l := n.logins
	scopes := n.need.Scopes
	before, err := n.store.Find(ctx, n.backend.Name, n.need.User.Key)
	if err != nil {
		return err
	}
	if before != nil && len(scopes) > 0 {
		scopes = union(before.Scopes, scopes)
	}
	grant, err := LogIn(ctx, Consent{Backend: n.backend, Redirect: n.base + CallbackPages + url.PathEscape(n.backend.Name), Scopes: scopes, Ask: a.ask})
	if err != nil {
		return err
	}
	l.pool.hide(grant.Access, grant.Refresh, grant.ClientSecret)
	return n.store.Put(ctx, n.backend.Name, n.need.User.Key, grant)
}

// ask passes the authorization URL to the page and waits for the browser's return.
func (a *attempt) ask(ctx context.Context, page string) (url.Values, error) {
	l := a.of.logins
	u, err := url.Parse(page)
	if err != nil {
		return nil, err
	}
	state := u.Query().Get("state")
	l.mu.Lock()
	l.returns[state] = a
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.returns, state)
		l.mu.Unlock()
	}()
	defer l.announceAttempt(ctx, a, state)()
	a.page <- page
	select {
	case back := <-a.back:
		return back, nil
	case <-ctx.Done():
		return nil, errors.New("the browser did not return from the authorization server")
	}
}

// came returns the attempt that a request to the redirect URI belongs to, by its state and cookie, and passes
// it the query. A state is valid once.
func (l *logins) came(r *http.Request) *attempt {
	q := r.URL.Query()
	state := q.Get("state")
	l.mu.Lock()
	a := l.returns[state]
	if a == nil {
		l.mu.Unlock()
		return l.cameElsewhere(r, state)
	}
	defer l.mu.Unlock()
	if a.of.backend.Name != r.PathValue("name") {
		return nil
	}
	cookie, err := r.Cookie(a.of.cookieName())
	if err != nil || subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(a.cookie)) != 1 {
		return nil
	}
	delete(l.returns, state)
	a.back <- q
	return a
}

func (n *PendingLogin) cookieName() string { return "vmcp_login_" + n.id[:8] }

// ForScopes reports whether the login adds scopes to an earlier one.
func (n *PendingLogin) ForScopes() bool { return len(n.need.Scopes) > 0 }

// Backend is the name of the backend that the login is for.
func (n *PendingLogin) Backend() string { return n.backend.Name }
