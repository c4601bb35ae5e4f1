package hostname

import (
	"net/netip"
	"slices"
)

// special4 are the IPv4 blocks that are not public and for which netip has no predicate (RFC 6890 and the IANA
// special-purpose registry).
var special4 = prefixes(
	"0.0.0.0/8",       // this network
	"100.64.0.0/10",   // carrier-grade NAT: overlay networks, and metadata services of some clouds
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // 6to4 relays
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"240.0.0.0/4",     // reserved, and broadcast
)

// Public IPv6 addresses are those of unicast6 without special6. Tunnels are special, because the IPv4 address in them
// may be reachable for the end of the tunnel.
var (
	unicast6 = netip.MustParsePrefix("2000::/3")
	special6 = prefixes(
		"2001::/23",     // protocol assignments, Teredo
		"2001:db8::/32", // documentation
		"2002::/16",     // 6to4
		"3fff::/20",     // documentation
	)
	// nat64 addresses have an IPv4 address in their last four bytes, which decides.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

// public reports whether an address, which must not be an IPv4-mapped IPv6 one, is public.
func public(a netip.Addr) bool {
	a = a.WithZone("")
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	if a.Is6() {
		return unicast6.Contains(a) && !slices.ContainsFunc(special6, within)
	}
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(special4, within)
}
