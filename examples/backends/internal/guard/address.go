// Package guard refuses connections of the example backends to addresses that are not of the public internet.
package guard

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// special are the IPv4 blocks that are not for hosts of the public internet and that
// netip has no predicate for (IANA's special-purpose registry).
var special = prefixes(
	"0.0.0.0/8",       // this network
	"100.64.0.0/10",   // carrier-grade NAT, and metadata services of some clouds
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // 6to4 relays
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"240.0.0.0/4",     // reserved, and broadcast
)

// unicast6 is the global unicast range of IPv6; special6 are the blocks in it that are not for hosts of the public internet.
// Tunnels are among them, since they can have any IPv4 address inside.
var (
	unicast6 = netip.MustParsePrefix("2000::/3")
	special6 = prefixes(
		"2001::/23",     // protocol assignments, Teredo
		"2001:db8::/32", // documentation
		"2002::/16",     // 6to4
		"3fff::/20",     // documentation
	)
)

func prefixes(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i, p := range s {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

// Public reports whether ip is of a host of the public internet.
func Public(ip netip.Addr) bool {
	within := func(p netip.Prefix) bool { return p.Contains(ip) }
	if ip.Is6() {
		return unicast6.Contains(ip) && !slices.ContainsFunc(special6, within)
	}
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !slices.ContainsFunc(special, within)
}

// parseAddr parses an address in the form of the dialer: an IPv4-mapped IPv6 address
// becomes an IPv4 address, a zone is dropped.
func parseAddr(s string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(s)
	return ip.Unmap().WithZone(""), err
}

// RefusePrivate is a function for net.Dialer.Control: it is called after a name was resolved and before
// the connect, with the address that is dialled, so that a later change of the name has no effect. The refusal
// has the code private_address.
func RefusePrivate(_, addr string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	ip, err := parseAddr(host)
	if err != nil {
		return fmt.Errorf("address %s: %w", host, err)
	}
	if !Public(ip) {
		return toolserver.Errorf("private_address", "%s is not a public address", ip)
	}
	return nil
}
