// Package hostname parses the hosts and origins of configurations and headers. It does not import net/http, so that
// a program that only reads configurations does not link it.
package hostname

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
)

// Host is a host in the form in which hosts are compared.
type Host struct {
	name string // lower case, without a final dot; "*.example.com" covers its subdomains
	port string // "" is any
}

// Parse parses a host, with or without a port, of a configuration or a header.
func Parse(text string) Host {
	name, port, err := net.SplitHostPort(text)
	if err != nil {
		name, port = text, ""
	}
	if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
		name = name[1 : len(name)-1]
	}
	return Host{strings.ToLower(strings.TrimSuffix(name, ".")), port}
}

// Covers reports whether the configured host h matches the host of a request.
func (h Host) Covers(have Host) bool {
	if h.port != "" && h.port != have.port {
		return false
	}
	if below, ok := strings.CutPrefix(h.name, "*"); ok {
		return strings.HasSuffix(have.name, below) && len(have.name) > len(below)
	}
	return h.name == have.name
}

// Normal returns an origin in lower case and without the default port of its scheme.
func Normal(text string) string {
	text = strings.ToLower(text)
	switch {
	case strings.HasPrefix(text, "https://"):
		return strings.TrimSuffix(text, ":443")
	case strings.HasPrefix(text, "http://"):
		return strings.TrimSuffix(text, ":80")
	}
	return text
}

// CheckHost returns what is wrong with a configured host.
func CheckHost(text string) error {
	h := Parse(text)
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

// CheckOrigin returns what is wrong with a configured origin.
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

// RefusePrivate returns a Control function of net.Dialer that refuses connections to addresses that are not public.
// hint is appended to the error: who named the address, and which setting allows it.
func RefusePrivate(hint string) func(network, address string, c syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if a := ap.Addr().Unmap(); !public(a) {
			return fmt.Errorf("%s is not a public address%s", a, hint)
		}
		return nil
	}
}

// IsLoopback reports whether a host, with or without a port, is a loopback name or address,
// which only this machine can reach.
func IsLoopback(text string) bool {
	h := Parse(text)
	if h.name == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(h.name)
	return err == nil && addr.Unmap().IsLoopback()
}
