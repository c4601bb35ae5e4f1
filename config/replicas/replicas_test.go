package replicas_test

import (
	"fmt"
	"testing"

	"github.com/vmcp-dev/vmcp/config/replicas"
)

func TestAddresses(t *testing.T) {
	for _, tt := range []struct{ listen, advertise, endpoint, want, dialled string }{
		{"10.0.0.7:4485", "", "127.0.0.1:4483", "", "10.0.0.7:4485"},
		{":4485", "10.0.0.7:4485", ":4483", "", "10.0.0.7:4485"},
		{"[::]:4485", "", ":4483", `cluster.listen: the others need a host to dial, such as 10.0.0.7:4485; "[::]:4485" has none: set advertise`, ""},
		{"10.0.0.7:0", "", ":4483", `cluster.listen: the others need a port to dial, have "10.0.0.7:0": set advertise`, ""},
		{"10.0.0.7:0", "10.0.0.7:9", ":0", "", "10.0.0.7:9"},
		{"10.0.0.7:4483", "", ":4483", "cluster.listen: 10.0.0.7:4483 is the address of the endpoint (listen): want a port of its own, such as 10.0.0.7:4485", ""},
		{"10.0.0.7:4483", "", "127.0.0.1:4483", "", "10.0.0.7:4483"},
	} {
		c, found := replicas.Cluster{Listen: tt.listen, Advertise: tt.advertise}, ""
		c.Check("cluster", replicas.Checker{
			Report: func(path, format string, args ...any) { found += path + ": " + fmt.Sprintf(format, args...) },
			Set: func(path string) bool {
				return path == "cluster" || path == "cluster.advertise" && tt.advertise != ""
			},
			Expand: func(_, text string) string { return text }, Listen: func(string, string) {},
			Endpoint: tt.endpoint, Postgres: true,
		})
		if found != tt.want || tt.want == "" && c.Advertise != tt.dialled {
			t.Errorf("listen %q, advertise %q beside %q: %q, dialled at %q\nwant %q, %q", tt.listen, tt.advertise, tt.endpoint, found, c.Advertise, tt.want, tt.dialled)
		}
	}
}
