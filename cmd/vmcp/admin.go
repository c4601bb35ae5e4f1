package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/proxy/auth"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/hostname"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// listenAdmin opens the port for operators. An address that other machines can reach requires a token: that of
// admin.tokenFile, or one of an admin.
func listenAdmin(cfg *config.Admin, in *config.IncomingAuth) (net.Listener, error) {
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	if cfg.TokenFile == "" && !hostname.IsLoopback(host) {
		if err := someAdmin(in); err != nil {
			return nil, cli.WithHint(
				usageError(fmt.Sprintf("admin.listen %s: other machines can reach this address, and %v", cfg.Listen, err)),
				"listen on 127.0.0.1, set admin.tokenFile, or list principals with a token in incomingAuth.authz.admins",
			)
		}
	}
	l, err := openPort(cfg.Listen, "choose another address in admin.listen of the configuration")
	if err != nil {
		return nil, fmt.Errorf("admin.%w", err)
	}
	return l, nil
}

// someAdmin returns why no admin can authenticate with a token; nil: one can. The principals of an issuer are
// not known here; those of static tokens are in the tokens file.
func someAdmin(in *config.IncomingAuth) error {
	admins := in.Authz.Admins
	switch {
	case in.TokenFile != "":
		return nil // the token of the user of this machine
	case in.Type != "oidc" && in.Type != "tokens" && in.Type != "mtls":
		return errors.New("the port requires no token: everybody who connects to it could see the backends")
	case len(admins.Groups)+len(admins.Subjects) == 0:
		return errors.New("nobody has access: the port requires an admin, and incomingAuth.authz.admins is empty")
	case in.Type == "oidc":
		return nil
	case in.Tokens.File == "":
		return errors.New("nobody has access: the port requires the token of an admin, and clients authenticate with certificates, which it does not accept")
	}
	all, err := auth.ReadTokens(in.Tokens.File)
	if err != nil {
		return fmt.Errorf("nobody has access: %w", err)
	}
	for _, t := range all {
		if !t.Expires.IsZero() && t.Expires.Before(time.Now()) {
			continue
		}
		if slices.Contains(admins.Subjects, t.Name) || slices.ContainsFunc(t.Groups, func(g string) bool { return slices.Contains(admins.Groups, g) }) {
			return nil
		}
	}
	return fmt.Errorf("nobody has access: the port requires the token of an admin, and no token in %s belongs to one of incomingAuth.authz.admins", in.Tokens.File)
}

// adminURL is the URL of the port for operators on this machine; "" for none.
func adminURL(l net.Listener) string {
	if l == nil {
		return ""
	}
	host, port, _ := net.SplitHostPort(l.Addr().String()) // of a TCP port
	return "http://" + cli.Reachable(host, port)
}

// serveAdmin serves the port for operators until the returned function is called.
func (a *app) serveAdmin(l net.Listener, h http.Handler, page bool, log *slog.Logger) (stop func()) {
	if l == nil {
		return func() {}
	}
	server := newServer(h, log)
	ended := make(chan error, 1)
	go serveOn(server, l, nil, ended)
	what := "metrics and details"
	if page {
		what = "the page for operators, metrics and details"
	}
	a.say("%s at %s/", what, adminURL(l))
	return func() {
		_ = server.Close()
		<-ended
	}
}

// servePprof serves the Go runtime's profiles on a separate loopback address until the
// returned function is called. An empty address serves nothing.
func (a *app) servePprof(addr string, allowed *edge.Policy) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, usageError(fmt.Sprintf("--pprof: want host:port such as 127.0.0.1:6060, have %q", addr))
	}
	if err := mayReach(addr, config.IncomingAuth{}, false); err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	l, err := openPort(addr, "choose another address with --pprof")
	if err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: guarded(mux, allowed), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go serveOn(server, l, nil, ended)
	fmt.Fprintf(a.err, "vmcp: profiles at http://%s/debug/pprof/\n", l.Addr())
	return func() {
		server.Close()
		<-ended
	}, nil
}

// guarded refuses requests of web pages and requests with another Host header.
func guarded(h http.Handler, allowed *edge.Policy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := allowed.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
