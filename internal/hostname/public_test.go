package hostname_test

import (
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/hostname"
)

// TestRefusePrivate: loopback, private and other special addresses are refused, in every form that a resolver may
// return.
func TestRefusePrivate(t *testing.T) {
	control := hostname.RefusePrivate("; allowPrivate allows it")
	for address, refused := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "10.1.2.3:443": true, "192.168.0.1:80": true, "172.16.0.1:80": true,
		"169.254.169.254:80": true, "[fe80::1%eth0]:80": true, "[fd00::1]:80": true, "0.0.0.0:80": true, "[::]:80": true,
		"[::ffff:127.0.0.1]:80": true, "[::ffff:10.0.0.1]:80": true, "224.0.0.1:80": true, "no address": true,
		// Special addresses of RFC 6890 and later that are not called private.
		"100.64.0.1:443": true, "100.100.100.200:80": true, "100.127.255.255:443": true, "0.1.2.3:80": true, "192.0.0.8:80": true,
		"192.0.2.1:80": true, "192.88.99.1:80": true, "198.18.0.1:80": true, "198.19.255.255:80": true, "198.51.100.1:80": true,
		"203.0.113.1:80": true, "240.0.0.1:80": true, "255.255.255.255:80": true, "[::ffff:100.64.0.1]:443": true,
		"[fec0::1]:443": true, "[::127.0.0.1]:443": true, "[2001:0:1::1]:443": true, "[2001:db8::1]:443": true, "[2002:7f00:1::1]:443": true,
		"[100::1]:443": true, "[3fff::1]:443": true, "[ff02::1]:443": true,
		"[64:ff9b::10.0.0.1]:443": true, "[64:ff9b::100.100.100.200]:80": true, "[64:ff9b:1::10.0.0.1]:443": true, "[64:ff9b::93.184.216.34]:443": false,
		"100.63.255.255:443": false, "100.128.0.1:443": false, "192.0.1.1:443": false, "198.20.0.1:443": false, "[2001:200::1]:443": false, "[2003::1]:443": false,
		"93.184.216.34:443": false, "[2606:2800:220:1::1]:443": false, "172.32.0.1:80": false,
	} {
		err := control("tcp", address, nil)
		if (err != nil) != refused {
			t.Errorf("%s: %v, want refused %v", address, err, refused)
		}
		if err != nil && address != "no address" && !strings.HasSuffix(err.Error(), "is not a public address; allowPrivate allows it") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
