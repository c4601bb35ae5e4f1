package main

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/origin"
)

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
