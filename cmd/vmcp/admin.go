package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/discovery"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/usage"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/hostname"
	"github.com/vmcp-dev/vmcp/internal/origin"
)

// listenAdmin opens the port for operators. Other machines reach it only with a token.
func listenAdmin(cfg *config.Admin) (net.Listener, error) {
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	if cfg.TokenFile == "" && !hostname.IsLoopback(host) {
		return nil, usage.WithHint(
			usageError(fmt.Sprintf("admin.listen %s: other machines reach this address, and the port asks for no token: whoever connects sees what the backends are", cfg.Listen)),
			"listen on 127.0.0.1, or name a file with a token in admin.tokenFile",
		)
	}
	l, err := listen(cfg.Listen, config.IncomingAuth{}, true)
	if err != nil {
		return nil, fmt.Errorf("admin.%w", err)
	}
	return l, nil
}

// adminURL is where this machine reaches the port for operators; "" for none.
func adminURL(l net.Listener) string {
	if l == nil {
		return ""
	}
	host, port, _ := net.SplitHostPort(l.Addr().String()) // of a TCP port
	return "http://" + discovery.Reachable(host, port)
}

// serveAdmin serves the port for operators until the returned function is called.
func (a *app) serveAdmin(l net.Listener, h http.Handler, log *slog.Logger) (stop func()) {
	if l == nil {
		return func() {}
	}
	server := newServer(h, log)
	ended := make(chan error, 1)
	go serveOn(server, l, nil, ended)
	a.say("metrics and details at http://%s", l.Addr())
	return func() {
		_ = server.Close()
		<-ended
	}
}

// servePprof serves the Go runtime's profiles on an address of this machine, away from
// the endpoint, until the returned function is called. An empty address serves nothing.
func (a *app) servePprof(addr string, allowed *origin.Policy) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	l, err := listen(addr, config.IncomingAuth{}, false)
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

// guarded refuses requests that come from a web page or with a foreign name.
func guarded(h http.Handler, allowed *origin.Policy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := allowed.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
