package main

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"time"
)

// servePprof serves the Go runtime's profiles on an address of this machine, away from
// the endpoint, until the returned function is called. An empty address serves nothing.
func (a *app) servePprof(addr string) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	l, err := listen(addr, false)
	if err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go serveOn(server, l, ended)
	fmt.Fprintf(a.err, "vmcp: profiles at http://%s/debug/pprof/\n", l.Addr())
	return func() {
		server.Close()
		<-ended
	}, nil
}
