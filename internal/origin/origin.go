// Package origin decides by the Host and Origin headers which requests may come in, and
// answers browsers what an accepted page may do.
//
// A web page can send requests to any address that its visitor's machine reaches. Two
// things give it away: the Origin header, which browsers add and pages cannot change, and,
// after DNS rebinding, a Host header with the name of the attacker. Hence:
//
//   - On a connection to a loopback address, Host has to be a loopback name or one of
//     Policy.Hosts. On any other address it has to be one of Policy.Hosts if there are any.
//   - An Origin has to be in Policy.Origins, or a loopback name on a loopback connection, or
//     that of the request's own Host where that was held to a rule. Without Hosts a
//     connection off loopback has no rule for Host, so there only Origins counts: Host and
//     Origin of a rebound page are equal.
//   - There is at most one Origin, and `null`, the origin of every sandboxed frame and
//     local file, is never accepted.
package origin

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/hostname"
)

// Policy is whom to let in beside loopback names. The zero value lets in no page that is
// not of this machine. A Policy is immutable and safe for concurrent use.
type Policy struct {
	hosts   []hostname.Host
	origins []string // normalised; "*" is any
}

// New makes a policy of values that hostname.CheckHost and hostname.CheckOrigin accept.
func New(hosts, origins []string) *Policy {
	p := &Policy{}
	for _, h := range hosts {
		p.hosts = append(p.hosts, hostname.Parse(h))
	}
	for _, o := range origins {
		p.origins = append(p.origins, hostname.Normal(o))
	}
	return p
}

// Check looks at the Host and Origin headers of a request. It returns the origin that the
// request comes from, "" when it names none.
func (p *Policy) Check(r *http.Request) (origin string, err error) {
	loopback := OnLoopback(r)
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

// allows reports whether pages of an origin may send requests. known says that the Host is
// one that was held to a rule.
func (p *Policy) allows(text, hostHeader string, known, loopback bool) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return false // null and what is none
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

// OnLoopback reports whether a request came to a loopback address, which only this machine
// reaches, or over a pipe within this process.
func OnLoopback(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if tcp, ok := local.(*net.TCPAddr); ok {
		return tcp.IP.IsLoopback()
	}
	return local != nil && (local.Network() == "pipe" || hostname.IsLoopback(local.String()))
}

// IsLocal reports whether somebody on this machine asks for a loopback name. What a reverse
// proxy on this machine passes on is not local, if the proxy says so.
func IsLocal(r *http.Request) bool {
	return OnLoopback(r) && hostname.IsLoopback(r.Host) && r.Header["X-Forwarded-For"] == nil && r.Header["Forwarded"] == nil
}
