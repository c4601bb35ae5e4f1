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
//	asked ──(the person agrees on the page)──► under way ──(comes back)──► over
//
// The page says as whom one is about to log in, at which backend, and has an address that nobody
// can guess. Who agrees there gets a cookie and is sent to the authorization server. Only that
// browser can come back with a code, once, with the state of that one attempt: neither can
// somebody be sent to the authorization server past the page, nor a code be brought by another.
// What comes of it is stored for the principal who was asked, whoever logs in.
//
// A login is over when it went well, went wrong, or nobody has come back in loginTime. It is
// known a while longer, to those who ask what has become of it.

const (
	// loginTime is how long a login may take from the question on.
	loginTime = 10 * time.Minute
	// pageTime is how long a page may wait for an authorization server.
	pageTime = 30 * time.Second
	// maxPending bounds the logins that were asked for, and maxPendingOf those of one principal.
	maxPending   = 1000
	maxPendingOf = 50
	// maxAttempts is how often a person may agree to one login: each asks the authorization server.
	maxAttempts = 10
	// LoginPages is the path below which the pages are, and CallbackPages that of those to which people
	// come back.
	LoginPages    = "/oauth/login/"
	CallbackPages = "/oauth/callback/"
)

// logins are those that were asked for.
type logins struct {
	pool *Pool

	mu      sync.Mutex
	all     map[string]*PendingLogin // guarded by mu, by id
	returns map[string]*attempt      // guarded by mu, by the state of the authorization request
}

// A PendingLogin is one that a principal was asked for.
type PendingLogin struct {
	logins  *logins
	id      string
	backend config.Backend
	need    LoginNeeded
	store   Keeper
	base    string // the URL of this endpoint, without a path
	done    chan struct{}
	expiry  *time.Timer

	attempt *attempt // guarded by logins.mu: the newest; nil while nobody has agreed
	tries   int      // guarded by logins.mu: how many there were
	over    bool     // guarded by logins.mu: done is closed
	err     error    // set before done is closed
}

// An attempt is one way through the pages.
type attempt struct {
	of     *PendingLogin
	cancel context.CancelFunc
	cookie string
	hash   string          // of the state; "" before it is known, and for a process that is alone
	page   chan string     // cap 1: where the person is sent
	back   chan url.Values // cap 1: with what it comes back
	over   chan struct{}   // closed when err is set
	err    error

	release func() // of an attempt of another replica: nobody waits for it here any more; else nil
}

var errManyLogins = errors.New("too many logins are open; finish one, or try again later")

// Begin asks a principal for a login, or finds the one that it was asked for already. base is
// the URL at which people reach this endpoint, without a path.
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

// add makes a login that is asked for, unless it is there.
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

// Pending is the login with an id that a principal was asked for; nil when there is none.
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

// ID tells the login from others. It is part of its URL.
func (n *PendingLogin) ID() string { return n.id }

// URL is the page that the person shall open.
func (n *PendingLogin) URL() string {
	return n.base + LoginPages + url.PathEscape(n.backend.Name) + "?id=" + n.id
}

// Done is closed when the login is over; Err then says how.
func (n *PendingLogin) Done() <-chan struct{} { return n.done }

// Err is why the login went wrong; nil when it went well.
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

// expire ends a login for want of time, and forgets it.
func (l *logins) expire(n *PendingLogin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(n, fmt.Errorf("nobody has logged in within %s", loginTime))
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

// begin starts an attempt, which takes the place of one that is under way.
func (l *logins) begin(n *PendingLogin) (*attempt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.over {
		return nil, errors.New("this login is over")
	}
	if n.tries++; n.tries > maxAttempts {
		return nil, errors.New("this login was begun too often; make the call again that asked for it in a few minutes")
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

// run goes through the login and stores what it gives.
func (l *logins) run(ctx context.Context, a *attempt) {
	defer a.cancel()
	n := a.of
	a.err = n.login(ctx, a)
	if a.err == nil {
		l.pool.o.Log.Info("a principal has logged in", "backend", n.backend.Name, "principal", n.need.User.Key)
	}
	close(a.over)
	l.mu.Lock()
	last := n.attempt == a
	if last {
		l.end(n, a.err)
	}
	l.mu.Unlock()
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

// ask sends the person to the authorization server and waits for it to come back.
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
	defer l.underWay(ctx, a, state)()
	a.page <- page
	select {
	case back := <-a.back:
		return back, nil
	case <-ctx.Done():
		return nil, errors.New("nobody came back from the authorization server")
	}
}

// came finds whose the answer of an authorization server is, and takes it: the state counts once.
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

// ForScopes reports whether there was a login already, with too few scopes.
func (n *PendingLogin) ForScopes() bool { return len(n.need.Scopes) > 0 }

// Backend is the name of the backend at which the login is.
func (n *PendingLogin) Backend() string { return n.backend.Name }
