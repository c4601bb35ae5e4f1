package credentials

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"strings"
)

// The pages of logins: the one on which a person agrees, and the redirect URI to which the browser returns.

// serveMux returns the handler of the pages.
func (l *logins) serveMux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+loginPages+"{name}", l.serveQuestion)
	mux.HandleFunc("POST "+loginPages+"{name}", l.serveAgreed)
	mux.HandleFunc("GET "+CallbackPages+"{name}", l.serveReturn)
	// A page of another origin cannot submit the form for the person who views it.
	return http.NewCrossOriginProtection().Handler(mux)
}

var pages = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title>
<style>body{font:16px/1.5 sans-serif;max-width:36em;margin:4em auto;padding:0 1em}button{font:inherit;padding:.4em 1.2em}</style></head>
<body><h1>{{.Title}}</h1>
{{with .Login}}<p>You are about to log in at <b>{{.Backend}}</b> ({{.URL}}) for <b>{{.Subject}}</b>{{with .Issuer}} of {{.}}{{end}}.</p>
<p>Calls that {{.Subject}} makes through this endpoint will then be made with the account that you log in with. Continue only if you are {{.Subject}} and have just been asked to log in here.</p>
{{with .Scopes}}<p>Scopes: {{.}}</p>{{end}}<form method="post"><button>Continue</button></form>{{end}}
{{with .Text}}<p>{{.}}</p>{{end}}</body></html>
`))

type page struct {
	Title, Text string
	Login       *pageLogin
}

type pageLogin struct{ Backend, URL, Subject, Issuer, Scopes string }

func (l *logins) write(w http.ResponseWriter, status int, p page) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	pages.Execute(w, p)
}

var pageGone = page{Title: "No such login", Text: "This login has ended, was begun in another browser, or does not exist. Repeat the call that asked for it."}

// asked returns the login whose page r requests; nil for none.
func (l *logins) asked(r *http.Request) *PendingLogin {
	n := l.find(r.Context(), r.URL.Query().Get("id"))
	if n == nil || n.backend.Name != r.PathValue("name") {
		return nil
	}
	return n
}

func (l *logins) serveQuestion(w http.ResponseWriter, r *http.Request) {
	n := l.asked(r)
	if n == nil {
		l.write(w, http.StatusNotFound, pageGone)
		return
	}
	u := n.need.User
	l.write(w, http.StatusOK, page{Title: "Log in at " + n.backend.Name, Login: &pageLogin{
		Backend: n.backend.Name, URL: originOf(n.backend.URL), Subject: u.Subject, Issuer: u.Issuer, Scopes: strings.Join(n.need.Scopes, " ")}})
}

func (l *logins) serveAgreed(w http.ResponseWriter, r *http.Request) {
	n := l.asked(r)
	if n == nil {
		l.write(w, http.StatusNotFound, pageGone)
		return
	}
	a, err := l.begin(n)
	if err != nil {
		l.failed(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTime)
	defer cancel()
	select {
	case to := <-a.page:
		http.SetCookie(w, &http.Cookie{Name: n.cookieName(), Value: a.cookie, Path: CallbackPages, MaxAge: int(loginTime.Seconds()),
			HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(n.base, "https://")})
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, to, http.StatusSeeOther)
	case <-a.over:
		l.failed(w, a.err)
	case <-ctx.Done():
		l.failed(w, errors.New("the authorization server does not answer"))
	}
}

func (l *logins) serveReturn(w http.ResponseWriter, r *http.Request) {
	a := l.came(r)
	if a == nil {
		l.write(w, http.StatusBadRequest, pageGone)
		return
	}
	if a.release != nil {
		defer a.release()
	}
	http.SetCookie(w, &http.Cookie{Name: a.of.cookieName(), Path: CallbackPages, MaxAge: -1})
	ctx, cancel := context.WithTimeout(r.Context(), pageTime)
	defer cancel()
	select {
	case <-a.over:
	case <-ctx.Done():
		l.failed(w, errors.New("the authorization server does not answer"))
		return
	}
	if a.err != nil {
		l.failed(w, a.err)
		return
	}
	l.write(w, http.StatusOK, page{Title: "Logged in", Text: a.of.need.User.Subject + " is logged in at " + a.of.backend.Name + ". You can close this page."})
}

// failed writes the page of a failed login.
func (l *logins) failed(w http.ResponseWriter, err error) {
	text := err.Error()
	if s := l.pool.o.Secrets; s != nil {
		text = s.Text(text)
	}
	l.write(w, http.StatusBadGateway, page{Title: "Not logged in", Text: text})
}

// ServeHTTP serves the pages of logins that principals were asked for.
func (p *Pool) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.pages.ServeHTTP(w, r) }
