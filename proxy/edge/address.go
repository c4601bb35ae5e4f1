package edge

import (
	"net/http"
	"net/netip"
	"strings"
)

// AddressOf is the address that a request comes from, as far as the proxies that are trusted say.
func (v *Server) AddressOf(r *http.Request) string {
	if addr, ok := addressOf(r, v.sessions.limits.Load().trusted); ok {
		return addr.String()
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return peer.Addr().Unmap().String()
}

// addressOf is the address that a request's limits count by: what the outermost of the
// trusted proxies has seen. ok is false where no proxy is trusted, for then everybody may
// come from one address, and for this machine.
func addressOf(r *http.Request, trusted []netip.Prefix) (addr netip.Addr, ok bool) {
	if len(trusted) == 0 {
		return addr, false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return addr, false
	}
	addr = peer.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && contained(addr, trusted); i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		addr = hop.Unmap()
	}
	return network(addr), !addr.IsLoopback()
}

func contained(addr netip.Addr, in []netip.Prefix) bool {
	for _, p := range in {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// network is what one user has: an address, and with IPv6 the 64 bits that are theirs to fill.
func network(addr netip.Addr) netip.Addr {
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}
