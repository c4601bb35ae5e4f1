package cli

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

// This part of the package opens a login page in the user's browser and receives the redirect that ends the login (RFC 8252, 7.3).

// Callback is an HTTP server on 127.0.0.1 that receives the redirect at the end of a login.
type Callback struct {
	URL    string
	server *http.Server
	came   chan url.Values
}

// Listen starts a Callback at a port; 0 is any free one.
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

// Wait returns the query parameters of the first redirect, or the cause of ctx.
func (c *Callback) Wait(ctx context.Context) (url.Values, error) {
	select {
	case q := <-c.came:
		return q, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close stops the server after its pending responses are written, for at most a second.
func (c *Callback) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.server.Shutdown(ctx)
}

// Open opens a page with the system's program for URLs; false when there is none.
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
