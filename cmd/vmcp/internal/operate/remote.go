package operate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/certs"
)

// remotes checks the URL of each backend, concurrently.
func (d *doctor) remotes(ctx context.Context) {
	found := make([]check, len(d.cfg.Backends))
	var wait sync.WaitGroup
	for i := range d.cfg.Backends {
		b := &d.cfg.Backends[i]
		if b.URL != "" && !b.Disabled && b.Unusable == "" {
			wait.Go(func() { found[i] = d.remote(ctx, b) })
		}
	}
	wait.Wait()
	for _, c := range found {
		if c.Name != "" {
			d.checks = append(d.checks, c)
		}
	}
}

// remote requests one URL and reports what is wrong with it.
func (d *doctor) remote(ctx context.Context, b *config.Backend) check {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := check{Name: "url"}
	about := func(state, hint, format string, args ...any) check {
		c.Status, c.Hint, c.Message = state, hint, "backend "+b.Name+": "+fmt.Sprintf(format, args...)
		return c
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL, nil)
	if err != nil {
		return about(fail, "", "not a URL")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range b.Headers {
		r.Header.Set(name, value)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	transport.TLSClientConfig = certs.ForBackend(b.TLS, r.URL.Hostname(), slog.New(slog.DiscardHandler)).Config()
	resp, err := (&http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil {
		what, hint := unreachable(err)
		return about(fail, hint, "%s: %s", r.URL.Host, what)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 1) // the response shows that the server is up
	switch {
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return about(fail, "configure a credential: headers, or outgoingAuth", "%s requires authentication: %s", r.URL.Host, resp.Status)
	case resp.StatusCode == http.StatusNotFound:
		return about(warn, "check the path: it is /mcp at many servers", "%s answers: %s", r.URL.Host, resp.Status)
	case resp.StatusCode >= 500:
		return about(warn, "this is an error of the server", "%s answers: %s", r.URL.Host, resp.Status)
	}
	return about(ok, "", "%s answers: %s", r.URL.Host, resp.Status)
}

// unreachable says at which step a request failed: the name, the connection, TLS or the response.
func unreachable(err error) (what, hint string) {
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &dns):
		return "DNS: " + dns.Err, "is the name right, and is this machine online?"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "TLS: " + inner(err), "have its certificate renewed; or is the clock of this machine wrong?"
	case errors.As(err, &name):
		return "TLS: " + inner(err), "write the name that its certificate is for into the url, or into tls.serverName of the backend"
	case errors.As(err, &unknown), isCertificate(err):
		return "TLS: " + inner(err), "name who signed its certificate in tls.ca of the backend"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "TCP: connection refused", "is the server started, and is the port right?"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer within 10 s", "is there a firewall or a proxy in between?"
	case strings.Contains(err.Error(), "tls:"), strings.Contains(err.Error(), "HTTP response to HTTPS"):
		return "TLS: " + inner(err), "is it http:// instead of https://?"
	}
	return "TCP: " + inner(err), "is there a firewall or a proxy in between?"
}

func isCertificate(err error) bool {
	var bad *tls.CertificateVerificationError
	return errors.As(err, &bad)
}

// inner is an error without the request's URL, which may contain a secret.
func inner(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// findIn finds a program in a list of folders as exec.LookPath does in PATH.
func findIn(folders, name string) (string, error) {
	for _, folder := range filepath.SplitList(folders) {
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}
