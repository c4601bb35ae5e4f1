//go:build suites

package cluster

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
)

// testCertificates: replicas with cluster.tls forward requests of sessions to each other, also while their certificates are replaced. One
// whose certificate the others do not accept is known by its heartbeats: others adopt its sessions, and the log has the reason.
func testCertificates(t *testing.T, pg *runstest.Server) {
	w := newWorld(t, pg, "")
	authorities := map[string]*testkit.Authority{"ours": testkit.NewAuthority(t), "foreign": testkit.NewAuthority(t)}
	authorities["ours"].WriteCert(t, filepath.Join(w.dir, "ca.crt"))
	issue := func(name, by string, until time.Time) {
		pair := authorities[by].Issue(t, x509.Certificate{IPAddresses: []net.IP{net.ParseIP("127.0.0.1")}, NotAfter: until})
		testkit.WritePair(t, w.dir, name, pair)
	}
	configure := func(file, name string) {
		w.settings = fmt.Sprintf("cluster: {listen: %q, heartbeat: 500ms, forwardTimeout: 1s, tls: {cert: %s.crt, key: %[2]s.key, ca: ca.crt}}\n", "${VMCP_TEST_PEERS}", name)
		w.configureAs(file, "a")
	}
	later := time.Now().Add(time.Hour)
	issue("good", "ours", later)
	issue("foreign", "foreign", later)
	issue("expired", "ours", time.Now().Add(-time.Minute))
	configure("vmcp.yaml", "good")
	for _, r := range w.replicas {
		r.start()
		r.awaitReady()
	}
	owner, others := w.replicas[0], w.replicas[1:]
	w.elsewhere(session(t, owner.url()), 6, others...)
	issue("good", "ours", later)
	w.elsewhere(session(t, owner.url()), 6, others...)
	if n := owner.bytes("vmcp_sessions_adopted_total") + others[0].bytes("vmcp_sessions_adopted_total"); n != 0 {
		t.Errorf("%d sessions were adopted, want none", n)
	}
	resp, err := http.Get("http://" + owner.peers + "/peer/alive")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP at the port of the replicas: %d", resp.StatusCode)
	}
	for name, want := range map[string]string{"foreign": "certificate signed by unknown authority", "expired": "certificate has expired"} {
		configure(name+".yaml", name)
		odd := w.replicas[2]
		odd.process.Kill()
		w.awaitReplicas(owner, 2)
		odd.config = name + ".yaml"
		odd.start()
		odd.awaitReady()
		w.awaitReplicas(owner, 3)
		w.elsewhere(session(t, odd.url()), 1, owner)
		w.elsewhere(session(t, odd.url()), 1, owner)
		log := owner.log.tail()
		if said := strings.Count(log, "cannot be reached though it was there"); said == 0 || !strings.Contains(log, want) {
			t.Errorf("%s: the log has %d lines, want one with %q", name, said, want)
		}
	}
}

// awaitReplicas waits until a replica knows a number of replicas.
func (w *world) awaitReplicas(r *replica, n int) {
	w.t.Helper()
	r.await(fmt.Sprintf("%d replicas", n), func() (bool, error) {
		s, err := r.readyz()
		return err == nil && s.Cluster.Replicas == n, err
	})
}
