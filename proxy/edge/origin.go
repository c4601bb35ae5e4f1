package edge

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/hostname"
)

// This part of the package checks the Host and Origin headers of requests, and implements CORS for
// accepted pages.
//
// A web page can send requests to any address that its visitor's machine can reach. Two
// headers show this: Origin, which browsers add and pages cannot change, and, after DNS
// rebinding, Host with the attacker's name. Hence:
//
//   - On a connection to a loopback address, Host must be a loopback name or one of the
//     configured hosts. On any other address it must be one of the configured hosts if there
//     are any.
//   - An Origin must be one of the configured origins, or a loopback name on a loopback
//     connection, or that of the request's Host if that was checked. Without configured hosts
//     Host is not checked on other addresses, so there only the configured origins count: after
//     DNS rebinding Host and Origin are equal.
//   - At most one Origin is allowed, and `null`, the origin of every sandboxed frame and
//     local file, is never accepted.

// Policy is the accepted hosts and origins, in addition to loopback names. The zero value
// accepts only pages of this machine. A Policy is immutable and safe for concurrent use.
type Policy struct {
	hosts   []hostname.Host
	origins []string // normalised; "*" is any
}

// NewOrigins makes a policy of values that hostname.CheckHost and hostname.CheckOrigin accept.
func NewOrigins(hosts, origins []string) *Policy {
	p := &Policy{}
	for _, h := range hosts {
		p.hosts = append(p.hosts, hostname.Parse(h))
	}
	for _, o := range origins {
		p.origins = append(p.origins, hostname.Normal(o))
	}
	return p
}

// Check checks the Host and Origin headers of a request. It returns the origin, "" without an
// Origin header.
func (p *Policy) Check(r *http.Request) (origin string, err error) {
	loopback := onLoopback(r)
	known := loopback && hostname.IsLoopback(r.Host) || p.hasHost(r.Host)
	if !known && loopback {
		return "", fmt.Errorf("host %q is not allowed on a loopback address; hosts in the configuration, or --hosts, allows it", r.Host)
	}
	if !known && len(p.hosts) > 0 {
		return "", fmt.Errorf("host %q is not allowed; hosts in the configuration, or --hosts, allows it", r.Host)
	}
	lines := r.Header["Origin"]
	if len(lines) == 0 {
		return "", nil
	}
	if len(lines) > 1 {
		return "", fmt.Errorf("there is more than one Origin header")
	}
	if p.allows(lines[0], r.Host, known, loopback) {
		return lines[0], nil
	}
	return "", fmt.Errorf("origin %q is not allowed; origins in the configuration, or --origins, allows it", lines[0])
}

// allows reports whether pages of an origin may send requests. known is set when the Host was
// checked.
func (p *Policy) allows(text, hostHeader string, known, loopback bool) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return false // null or invalid
	}
	if slices.Contains(p.origins, "*") || slices.Contains(p.origins, hostname.Normal(text)) {
		return true
	}
	return known && strings.EqualFold(u.Host, hostHeader) || loopback && hostname.IsLoopback(u.Host)
}

func (p *Policy) hasHost(text string) bool {
	have := hostname.Parse(text)
	return slices.ContainsFunc(p.hosts, func(h hostname.Host) bool { return h.Covers(have) })
}

// onLoopback reports whether a request was received on a loopback address, which only this
// machine can reach, or on a pipe within this process.
func onLoopback(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if tcp, ok := local.(*net.TCPAddr); ok {
		return tcp.IP.IsLoopback()
	}
	return local != nil && (local.Network() == "pipe" || hostname.IsLoopback(local.String()))
}

// IsLocal reports whether a request was sent on this machine to a loopback name. Requests with
// the headers of a reverse proxy (Forwarded, X-Forwarded-For) are not local.
func IsLocal(r *http.Request) bool {
	return onLoopback(r) && hostname.IsLoopback(r.Host) && r.Header["X-Forwarded-For"] == nil && r.Header["Forwarded"] == nil
}
