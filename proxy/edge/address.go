package edge

import (
	"net/http"
	"net/netip"
	"strings"
)

// AddressOf is the remote address of a request, with trustedProxies applied.
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

// addressOf is the address by which limits count a request: the one that the outermost trusted proxy saw. ok is false
// without trusted proxies, since then all clients may share one address, and for loopback addresses.
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

// network is what one user has: an IPv4 address, or the /64 of an IPv6 address.
func network(addr netip.Addr) netip.Addr {
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}
