// Package hostname reads the hosts and origins that configurations name and headers carry. It knows no HTTP, so that
// what only reads a configuration does not carry a web server along.
package hostname

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Host is the name of a host as it is compared.
type Host struct {
	name string // lower case, without a final dot; "*.example.com" stands for what is below
	port string // "" is any
}

// Parse splits a host, with or without a port, as a configuration or a header has it.
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

// Covers reports whether a host of a request is one that a configured host stands for.
func (h Host) Covers(have Host) bool {
	if h.port != "" && h.port != have.port {
		return false
	}
	if below, ok := strings.CutPrefix(h.name, "*"); ok {
		return strings.HasSuffix(have.name, below) && len(have.name) > len(below)
	}
	return h.name == have.name
}

// Normal is an origin in lower case and without the port that its scheme implies.
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

// CheckHost says what is wrong with a configured host.
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

// IsLoopback reports whether a host, with or without a port, is a loopback name or address:
// one that only this machine reaches.
func IsLoopback(text string) bool {
	h := Parse(text)
	if h.name == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(h.name)
	return err == nil && addr.Unmap().IsLoopback()
}
