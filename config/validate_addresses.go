package config

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Address expands the variables in an address to listen on or to dial, host:port, and checks it; an empty one is valid.
// If the whole host is a variable, as in ${POD_IP}:4485, an IPv6 address in it needs no brackets: it is clear where the
// port begins. Anywhere else it is not, since fd00::1:2 is an address itself.
func (v *Validator) Address(path, text string) string {
	if host, port, ok := strings.Cut(text, "}:"); ok && strings.HasPrefix(host, "${") && !strings.Contains(host, "}") && !v.InObject() {
		host, port = v.ExpandPublic(path, host+"}"), v.ExpandPublic(path, port)
		if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
			host = "[" + host + "]"
		}
		text = host + ":" + port
	} else {
		text = v.ExpandPublic(path, text)
	}
	if !v.Broken(path) {
		v.address(path, text)
	}
	return text
}

func (v *Validator) address(path, text string) {
	if text == "" {
		return
	}
	_, port, err := net.SplitHostPort(text)
	switch {
	case err != nil && withoutBrackets(text):
		v.Report(path, "%q is an IPv6 address without brackets, whose port cannot be told: want [address]:port such as [fd00::1]:4483", text)
		return
	case err != nil:
		v.Report(path, "want host:port such as 127.0.0.1:4483, have %q", text)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		v.Report(path, "want a port from 0 to 65535, have %q", port)
	}
}

// withoutBrackets reports whether a string is an IPv6 address without brackets, perhaps followed by a port.
func withoutBrackets(text string) bool {
	is6 := func(s string) bool {
		ip, err := netip.ParseAddr(s)
		return err == nil && ip.Is6()
	}
	return is6(text) || is6(text[:max(0, strings.LastIndexByte(text, ':'))])
}
