package config_test

import (
	"fmt"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/internal/document"
)

func TestAddresses(t *testing.T) {
	for _, tt := range []struct{ listen, advertise, endpoint, want, dialled string }{
		{"10.0.0.7:4485", "", "127.0.0.1:4483", "", "10.0.0.7:4485"},
		{":4485", "10.0.0.7:4485", ":4483", "", "10.0.0.7:4485"},
		{"[::]:4485", "", ":4483", `cluster.listen: the others need a host to dial, such as 10.0.0.7:4485; "[::]:4485" has none: set advertise`, ""},
		{"10.0.0.7:0", "", ":4483", `cluster.listen: the others need a port to dial, have "10.0.0.7:0": set advertise`, ""},
		{"10.0.0.7:0", "10.0.0.7:9", ":0", "", "10.0.0.7:9"},
		{"10.0.0.7:4483", "", ":4483", "cluster.listen: 10.0.0.7:4483 is the address of the endpoint (listen): want another port, such as 10.0.0.7:4485", ""},
		{"10.0.0.7:4483", "", "127.0.0.1:4483", "", "10.0.0.7:4483"},
		{"[fd00::7]:4485", "", ":4483", "", "[fd00::7]:4485"},
		{"${POD_IP}:4485", "", ":4483", "", "[fd00::1:2]:4485"},
		{"${POD_IP}:${PORT}", "", ":4483", "", "[fd00::1:2]:4485"},
		{"[${POD_IP}]:4485", "", ":4483", "", "[fd00::1:2]:4485"},
		{"${BRACKETED}:4485", "", ":4483", "", "[fd00::1:2]:4485"},
		{"${NONE:-fd00::9}:4485", "", ":4483", "", "[fd00::9]:4485"},
		{":4485", "${POD_IP}:4485", ":4483", "", "[fd00::1:2]:4485"},
		{"fd00::1:2", "", ":4483", `cluster.listen: "fd00::1:2" is an IPv6 address without brackets, whose port cannot be told: want [address]:port such as [fd00::1]:4483`, ""},
		{"${POD_IP}", "", ":4483", `cluster.listen: "fd00::1:2" is an IPv6 address without brackets, whose port cannot be told: want [address]:port such as [fd00::1]:4483`, ""},
		{"[fd00::7]:4485", "fd00:1:2:3:4:5:6:7:4485", ":4483", `cluster.advertise: "fd00:1:2:3:4:5:6:7:4485" is an IPv6 address without brackets, whose port cannot be told: want [address]:port such as [fd00::1]:4483`, ""},
		{"10.0.0.7:4485", "a:b:c", ":4483", `cluster.advertise: want host:port such as 127.0.0.1:4483, have "a:b:c"`, ""},
	} {
		var c struct {
			Cluster config.Cluster `json:"cluster"`
		}
		d := document.New("vmcp.yaml", document.Rules{})
		text := fmt.Sprintf("cluster: {listen: %q}", tt.listen)
		if tt.advertise != "" {
			text = fmt.Sprintf("cluster: {listen: %q, advertise: %q}", tt.listen, tt.advertise)
		}
		d.Decode([]byte(text), 1<<20, &c)
		c.Cluster.Check("cluster", tt.endpoint, true, &config.Validator{Document: d, Env: func(name string) (string, bool) {
			value, ok := map[string]string{"POD_IP": "fd00::1:2", "PORT": "4485", "BRACKETED": "[fd00::1:2]"}[name]
			return value, ok
		}})
		found := ""
		for _, p := range d.Problems {
			found += p.Path + ": " + p.Message
		}
		if found != tt.want || tt.want == "" && c.Cluster.Advertise != tt.dialled {
			t.Errorf("listen %q, advertise %q beside %q: %q, dialled at %q\nwant %q, %q", tt.listen, tt.advertise, tt.endpoint, found, c.Cluster.Advertise, tt.want, tt.dialled)
		}
	}
}
