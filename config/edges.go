package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/hostname"
)

// maxToken bounds a file with one token, in bytes.
const maxToken = 4 << 10

// maxBody is the upper bound of maxRequestBody, in bytes.
const maxBody = 64 << 20

// edges checks the settings of the ports: accepted hosts and origins, sessions, admin, discovery.
func (v *validator) edges(c *Config) {
	for i, h := range c.Hosts {
		if err := hostname.CheckHost(h); err != nil {
			v.Report(document.IndexPath("hosts", i), "%v", err)
		}
	}
	for i, o := range c.Origins {
		if err := hostname.CheckOrigin(o); err != nil {
			v.Report(document.IndexPath("origins", i), "%v", err)
		}
	}
	for i, n := range c.TrustedProxies {
		if _, err := ParseNetwork(n); err != nil {
			v.Report(document.IndexPath("trustedProxies", i), "%v", err)
		}
	}
	for _, n := range []struct {
		field string
		value int
	}{{"max", c.ClientSessions.Max}, {"perPrincipal", c.ClientSessions.PerPrincipal}, {"perAddress", c.ClientSessions.PerAddress}} {
		if n.value < 0 || n.value == 0 && v.Set("clientSessions."+n.field) {
			v.Report("clientSessions."+n.field, "want a positive number, have %d", n.value)
		}
	}
	if n := c.MaxRequestBody; v.Set("maxRequestBody") && (n < 1<<10 || n > maxBody) {
		v.Report("maxRequestBody", "want a size from 1KB to 64MB, have %s", n)
	}
	v.admin(&c.Admin)
	switch c.Discovery.File {
	case "", NoDiscovery:
	default:
		c.Discovery.File = v.Absolute(c.Discovery.File)
	}
}

// ParseNetwork parses an element of trustedProxies: a network or one address.
func ParseNetwork(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Masked() != p {
		return netip.Prefix{}, fmt.Errorf("want a network such as 10.0.0.0/8, or an address; have %q", text)
	}
	return p, nil
}

func (v *validator) admin(a *Admin) {
	a.Listen = v.Address("admin.listen", a.Listen)
	if !v.Set("admin.tokenFile") {
		return
	}
	if a.Listen == "" {
		v.Report("admin.tokenFile", "only allowed with admin.listen: it is the token of that port")
	}
	name := a.TokenFile
	a.TokenFile = v.Absolute(name)
	if _, err := ReadToken(a.TokenFile); err != nil {
		v.Report("admin.tokenFile", "%q: %v", name, err)
	}
}

// ReadToken reads a file with one bearer token, which may be surrounded by white space.
func ReadToken(path string) (string, error) {
	text, err := files.Read(path, maxToken)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("no such file")
	}
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", err
	case token == "":
		return "", errors.New("the file is empty, want a token")
	case strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }):
		return "", errors.New("want one token of printable characters without spaces")
	}
	return token, nil
}
