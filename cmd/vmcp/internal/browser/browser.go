// Package browser sends a person to a page, and waits until the browser comes back.
package browser

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"time"
)

// Callback is a port of this machine to which a browser comes back from a login.
type Callback struct {
	URL    string
	server *http.Server
	came   chan url.Values
}

// Listen opens one; port 0 is any.
func Listen(port uint16) (*Callback, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	c := &Callback{URL: "http://" + l.Addr().String() + "/callback", came: make(chan url.Values, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Referrer-Policy", "no-referrer")
		fmt.Fprintln(w, "<!doctype html><title>vmcp</title><p>You can close this page and go back to the terminal.")
		select {
		case c.came <- r.URL.Query():
		default: // the first answer counts
		}
	})
	c.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go c.server.Serve(l)
	return c, nil
}

// Wait returns the parameters that the browser came back with.
func (c *Callback) Wait(ctx context.Context) (url.Values, error) {
	select {
	case q := <-c.came:
		return q, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close lets the page be read first.
func (c *Callback) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.server.Shutdown(ctx)
}

// Open opens a page; false when there is nothing to open it with.
func Open(page string) bool {
	name, args := "xdg-open", []string{page}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", page}
	}
	cmd := exec.Command(name, args...)
	if cmd.Start() != nil {
		return false
	}
	go cmd.Wait()
	return true
}
