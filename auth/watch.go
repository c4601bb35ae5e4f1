package auth

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

// What lasts longer than a request ends with the credential that it was opened with: when its time
// is over, when it is taken out of its file, when its issuer does not vouch for it any more, and
// when its groups or scopes are others by now. Whoever still may come in opens it anew.

// Watch returns a context that ends when the principal's credential does. token is what the principal
// came in with; "" for a certificate. stop releases what that takes.
func (a *Authenticator) Watch(ctx context.Context, p *Principal, token string) (_ context.Context, stop func()) {
	if p == nil || p.Claims == nil {
		token = "" // no issuer has to be asked about it
	}
	if p == nil || p.token == "" && token == "" && p.Expires.IsZero() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	forget := a.watchers.add(&watcher{p, token, func() { cancel(ErrCredentialEnded) }})
	return ctx, func() { forget(); cancel(context.Canceled) }
}

// ErrCredentialEnded is why a watched context ended: the credential has expired or was revoked, or
// stands for other rights.
var ErrCredentialEnded = errors.New("the credential has ended")

// watch looks at the tokens file, and ends what is watched for principals whose time is over.
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

// eachLook calls f whenever it is time to look again, until ctx ends.
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

// over reports whether a principal that came in has no right to be here any more.
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

// watchIssuer finds out which watched tokens their issuer has taken back.
func (a *Authenticator) watchIssuer(ctx context.Context) {
	a.eachLook(ctx, func() { a.askAgain(ctx) })
}

// askAgain verifies the watched tokens of the issuer: those whose verdict still holds cost nothing.
// While the issuer cannot be asked, everything goes on.
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

// mayAs reports whether a principal has these groups and scopes, and no others.
func (p *Principal) mayAs(groups, scopes []string) bool {
	return sameTexts(p.Groups, groups) && sameTexts(p.Scopes, scopes)
}

// sameTexts reports whether two lists have the same texts, in any order.
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
	token     string // of an issuer; "" for any other
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

// tokens are those of an issuer, each once.
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
