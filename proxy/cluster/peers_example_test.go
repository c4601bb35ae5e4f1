package cluster_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"

	"github.com/vmcp-dev/vmcp/proxy/cluster"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// A replica forwards a client's request to the replica that owns its session. Both have the same key; where the other one
// listens comes from the table of replicas.
func Example() {
	ring, err := durable.NewSeal([]durable.Key{{ID: "k1", Secret: bytes.Repeat([]byte{7}, 32)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	owner := cluster.NewPeers(cluster.PeerOptions{Ring: ring, Space: "vmcp", Self: "b", Serve: func(w http.ResponseWriter, _ *http.Request, p cluster.Passage) {
		fmt.Fprintf(w, "session %s of replica %s, from replica %s: %s", p.Session, p.To, p.From, p.Body)
	}})
	defer owner.Close()
	go owner.Listen(l)

	address := func(replica string) (string, bool) { return l.Addr().String(), replica == "b" }
	p := cluster.NewPeers(cluster.PeerOptions{Ring: ring, Space: "vmcp", Self: "a", Address: address})
	defer p.Close()
	client := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := p.Forward(w, r, cluster.Passage{To: "b", Session: "s1", Kind: cluster.Session, Body: []byte(`{"method":"ping"}`)})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	}))
	defer client.Close()
	resp, err := http.Post(client.URL+"/mcp", "application/json", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	text.ReadFrom(resp.Body)
	fmt.Println(resp.StatusCode, text.String())
	// Output: 200 session s1 of replica b, from replica a: {"method":"ping"}
}
