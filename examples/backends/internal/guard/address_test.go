package guard

import (
	"net/netip"
	"testing"
)

func TestPublicAddresses(t *testing.T) {
	for addr, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700:4700::1111": true, "::ffff:8.8.8.8": true,
		"255.255.255.255": false, "224.0.0.1": false, "172.31.0.1": false, "2002:7f00:1::": false,
		"2001:db8::1": false, "ff02::1": false, "::127.0.0.1": false, "198.19.0.1": false,
	} {
		ip, err := parseAddr(addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := Public(ip); got != want {
			t.Errorf("Public(%s) = %v, want %v", addr, got, want)
		}
	}
	if Public(netip.Addr{}) {
		t.Error("Public of no address: got true")
	}
}
