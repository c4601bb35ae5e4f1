package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/origin"
)

// listenAdmin opens the port for operators. Other machines reach it only with a token.
func listenAdmin(cfg *config.Admin) (net.Listener, error) {
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	if cfg.TokenFile == "" && !origin.IsLoopback(host) {
		return nil, &hintError{
			usageError(fmt.Sprintf("admin.listen %s: other machines reach this address, and the port asks for no token: whoever connects sees what the backends are", cfg.Listen)),
			"listen on 127.0.0.1, or name a file with a token in admin.tokenFile",
		}
	}
	l, err := listen(cfg.Listen, config.IncomingAuth{}, true)
	if err != nil {
		return nil, fmt.Errorf("admin.%w", err)
	}
	return l, nil
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
