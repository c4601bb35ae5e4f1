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
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Policy is whom to let in beside loopback names. The zero value lets in no page that is
// not of this machine. A Policy is immutable and safe for concurrent use.
type Policy struct {
	hosts   []host
	origins []string // normalised; "*" is any
}

type host struct {
	name string // lower case, without a final dot; "*.example.com" stands for what is below
	port string // "" is any
}

// New makes a policy of values that CheckHost and CheckOrigin accept.
func New(hosts, origins []string) *Policy {
	p := &Policy{}
	for _, h := range hosts {
		p.hosts = append(p.hosts, parseHost(h))
	}
	for _, o := range origins {
		p.origins = append(p.origins, normal(o))
	}
	return p
}

// CheckHost says what is wrong with a configured host.
func CheckHost(text string) error {
	h := parseHost(text)
	name := strings.TrimPrefix(h.name, "*.")
	bad := name == "" || strings.ContainsAny(name, "/*@?#\\ \t") || strings.Contains(name, ":") && !isAddress(name)
	if _, err := strconv.ParseUint(h.port, 10, 16); bad || strings.HasSuffix(text, ":") || h.port != "" && err != nil {
		return fmt.Errorf("want a name such as mcp.example.com, with a port if only that one is meant, or *.example.com; have %q", text)
	}
	return nil
}

func isAddress(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// CheckOrigin says what is wrong with a configured origin.
func CheckOrigin(text string) error {
	if text == "*" {
		return nil
	}
	if text == "null" {
		return fmt.Errorf("null is the origin of every sandboxed page and local file; it is never accepted")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || strings.Contains(u.Host, "*") {
		return fmt.Errorf("want scheme and host such as https://app.example.com, without a path, or * for any; have %q", text)
	}
	return nil
}

// Check looks at the Host and Origin headers of a request. It returns the origin that the
// request comes from, "" when it names none.
func (p *Policy) Check(r *http.Request) (origin string, err error) {
	loopback := OnLoopback(r)
	known := loopback && IsLoopback(r.Host) || p.hasHost(r.Host)
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
	if slices.Contains(p.origins, "*") || slices.Contains(p.origins, normal(text)) {
		return true
	}
	return known && strings.EqualFold(u.Host, hostHeader) || loopback && IsLoopback(u.Host)
}

func (p *Policy) hasHost(text string) bool {
	if len(p.hosts) == 0 {
		return false
	}
	have := parseHost(text)
	return slices.ContainsFunc(p.hosts, func(h host) bool {
		if h.port != "" && h.port != have.port {
			return false
		}
		if below, ok := strings.CutPrefix(h.name, "*"); ok {
			return strings.HasSuffix(have.name, below) && len(have.name) > len(below)
		}
		return h.name == have.name
	})
}

func parseHost(text string) host {
	name, port, err := net.SplitHostPort(text)
	if err != nil {
		name, port = text, ""
	}
	if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
		name = name[1 : len(name)-1]
	}
	return host{strings.ToLower(strings.TrimSuffix(name, ".")), port}
}

// normal is an origin in lower case and without the port that its scheme implies.
func normal(text string) string {
	text = strings.ToLower(text)
	switch {
	case strings.HasPrefix(text, "https://"):
		return strings.TrimSuffix(text, ":443")
	case strings.HasPrefix(text, "http://"):
		return strings.TrimSuffix(text, ":80")
	}
	return text
}

// OnLoopback reports whether a request came to a loopback address, which only this machine
// reaches, or over a pipe within this process.
func OnLoopback(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if tcp, ok := local.(*net.TCPAddr); ok {
		return tcp.IP.IsLoopback()
	}
	return local != nil && (local.Network() == "pipe" || IsLoopback(local.String()))
}

// IsLocal reports whether somebody on this machine asks for a loopback name. What a reverse
// proxy on this machine passes on is not local, if the proxy says so.
func IsLocal(r *http.Request) bool {
	return OnLoopback(r) && IsLoopback(r.Host) && r.Header["X-Forwarded-For"] == nil && r.Header["Forwarded"] == nil
}

// IsLoopback reports whether a host, with or without a port, is a loopback name or address:
// one that only this machine reaches.
func IsLoopback(text string) bool {
	h := parseHost(text)
	if h.name == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(h.name)
	return err == nil && addr.Unmap().IsLoopback()
}
