package auth

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Streams and other contexts that outlive a request end with its credential: when that expires, is
// removed from its file, is refused by its issuer, or has other groups or scopes. A client whose
// credential is still valid opens a new one.

// Watch returns a context that ends with the principal's credential. token is the principal's bearer
// token; "" for a certificate. stop must be called to release the watch.
func (a *Authenticator) Watch(ctx context.Context, p *Principal, token string) (_ context.Context, stop func()) {
	if p == nil || p.Claims == nil {
		token = "" // not a token of an issuer
	}
	if p == nil || p.token == "" && token == "" && p.Expires.IsZero() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	forget := a.watchers.add(&watcher{p, token, func() { cancel(ErrCredentialEnded) }})
	return ctx, func() { forget(); cancel(context.Canceled) }
}

// ErrCredentialEnded is the cause of a watched context: the credential has expired, was revoked, or
// has other rights.
var ErrCredentialEnded = errors.New("the credential has ended")

// watch refreshes the tokens files, and ends the contexts of principals whose credential has ended.
func (a *Authenticator) watch(ctx context.Context) {
	a.eachLook(ctx, func() {
		now := a.now()
		for _, t := range []*tokenTable{a.tokens, a.own} {
			if t == nil {
				continue
			}
			if err := t.refresh(); err != nil {
				a.log.Warn("tokens file", "err", err)
			}
		}
		a.watchers.endWhere(func(w *watcher) bool { return a.over(w.principal, now) })
	})
}

// eachLook calls f at the interval of Options.Look, until ctx ends.
func (a *Authenticator) eachLook(ctx context.Context, f func()) {
	tick := time.NewTicker(a.look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}

// over reports whether the credential of a principal has expired or was removed from its file.
func (a *Authenticator) over(p *Principal, now time.Time) bool {
	if !p.Expires.IsZero() && !now.Before(p.Expires) {
		return true
	}
	switch {
	case p.token == "":
		return false
	case p.Issuer == IssuerLocal:
		return !a.own.holds(p)
	}
	return !a.tokens.has(p)
}

// watchIssuer ends the contexts of tokens that their issuer no longer accepts.
func (a *Authenticator) watchIssuer(ctx context.Context) {
	a.eachLook(ctx, func() { a.askAgain(ctx) })
}

// askAgain verifies the watched tokens of the issuer again; those with a cached verdict cause no
// request. While the issuer cannot be reached, no context ends.
func (a *Authenticator) askAgain(ctx context.Context) {
	for _, token := range a.watchers.tokens() {
		p, err := a.verify(ctx, token)
		if err != nil && refusalOf(err).Status == http.StatusServiceUnavailable {
			return
		}
		a.watchers.endWhere(func(w *watcher) bool {
			return w.token == token && (err != nil || !w.principal.mayAs(p.Groups, p.Scopes))
		})
	}
}

// mayAs reports whether a principal has exactly these groups and scopes.
func (p *Principal) mayAs(groups, scopes []string) bool {
	return sameTexts(p.Groups, groups) && sameTexts(p.Scopes, scopes)
}

// sameTexts reports whether two lists have the same strings, in any order.
func sameTexts(a, b []string) bool {
	return slices.Equal(a, b) || slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// watchers are the contexts that end with a credential.
type watchers struct {
	mu  sync.Mutex
	all map[*watcher]bool // guarded by mu
}

type watcher struct {
	principal *Principal
	token     string // of an issuer; "" for other credentials
	end       func()
}

func (w *watchers) add(x *watcher) (forget func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*watcher]bool{}
	}
	w.all[x] = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, x)
	}
}

// tokens returns the watched tokens of an issuer, each once.
func (w *watchers) tokens() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for x := range w.all {
		if x.token != "" {
			all = append(all, x.token)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (w *watchers) endWhere(which func(*watcher) bool) {
	w.mu.Lock()
	var over []*watcher
	for x := range w.all {
		if which(x) {
			over = append(over, x)
			delete(w.all, x)
		}
	}
	w.mu.Unlock()
	for _, x := range over {
		x.end()
	}
}

func (w *watchers) endAll() { w.endWhere(func(*watcher) bool { return true }) }
