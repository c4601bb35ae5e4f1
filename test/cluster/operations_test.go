//go:build suites

package cluster

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/replicas"
)

// status is the details of a replica at /readyz.
type status struct {
	Storage struct {
		Provider string
		OK       bool
	}
	Config  struct{ Hash string }
	Cluster struct {
		ID, Advertise, Error string
		Replicas             int
	}
}

// testSeen: /readyz and metrics of each replica show all three, with one configuration; one that is killed is reported as missing, and one with
// other keys is not ready.
func testSeen(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, clustered)
	at := func(r *replica) status {
		s, err := r.readyz()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ids := map[string]bool{}
	for _, r := range w.replicas {
		r.await("three replicas", func() (bool, error) { return at(r).Cluster.Replicas == 3, nil })
		s := at(r)
		if ids[s.Cluster.ID] = true; s.Storage.Provider != "postgres" || !s.Storage.OK || s.Cluster.Advertise != r.peers {
			t.Errorf("/readyz: %+v", s)
		}
		if want := at(w.replicas[0]).Config.Hash; s.Config.Hash == "" || s.Config.Hash != want {
			t.Errorf("the configuration's hash is %q, at the first replica %q", s.Config.Hash, want)
		}
		if n := r.metric("vmcp_cluster_replicas"); n != 3 {
			t.Errorf("vmcp_cluster_replicas is %d", n)
		}
	}
	if len(ids) != 3 {
		t.Errorf("the ids of three replicas are %v", ids)
	}
	w.replicas[2].process.Kill()
	w.replicas[0].await("two replicas", func() (bool, error) { return at(w.replicas[0]).Cluster.Replicas == 2, nil })
	w.configureAs("wrong.yaml", "b") // a secret that did not arrive everywhere
	w.replicas[2].config = "wrong.yaml"
	w.replicas[2].start()
	w.replicas[2].await("503 for keys that are not those of the others", func() (bool, error) {
		s, _ := w.replicas[2].readyz() // refused until it listens
		return s.Cluster.Error != "", nil
	})
	if code := replicas.StatusOf(t.Context(), "http://"+w.replicas[2].addr+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz with other keys: %d", code)
	}
}

// metric is a value of /metrics.
func (r *replica) metric(name string) int {
	r.w.t.Helper()
	resp, err := http.Get("http://" + r.addr + "/metrics")
	if err != nil {
		r.w.t.Fatal(err)
	}
	defer resp.Body.Close()
	page, _ := io.ReadAll(resp.Body)
	for _, line := range strings.Split(string(page), "\n") {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.Atoi(value)
			return n
		}
	}
	r.w.t.Fatalf("/metrics has no %s", name)
	return 0
}

// testShares: limits.runsPerPrincipal is for the whole cluster. Of eight runs that arrive round robin six begin, and two wait.
func testShares(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, clustered+"limits: {runsPerPrincipal: 6}\nincomingAuth: {type: local}\n")
	for _, r := range w.replicas {
		r.await("three replicas", func() (bool, error) { return r.metric("vmcp_cluster_replicas") == 3, nil })
	}
	open := w.ledger.shut(t)
	b := w.balanced(false, 0)
	var all sync.WaitGroup
	for i := range 8 {
		r := w.newRun(b.URL, "puts", fmt.Sprintf("share-%d", i))
		all.Go(func() {
			if err := r.drive(t.Context()); err != nil {
				t.Error(err)
			} else if err := r.check(); err != nil {
				t.Error(err)
			}
		})
	}
	sum := func(name string) (n int) {
		for _, r := range w.replicas {
			n += r.metric(name)
		}
		return n
	}
	w.replicas[0].await("two runs that wait", func() (bool, error) { return sum("vmcp_script_runs_waiting") == 2, nil })
	w.replicas[0].await("six calls at the backend", func() (bool, error) { return w.ledger.inside() == 6, nil })
	if n := sum("vmcp_script_runs_waiting"); n != 2 {
		t.Errorf("%d runs wait, want 2", n)
	}
	open()
	all.Wait()
}

// testTasks: a task of a backend that was begun through one replica is found through the others, and survives the first.
func testTasks(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, clustered)
	c := &raw.Client{URL: w.replicas[0].url(), Revision: raw.Modern}
	if got, err := c.Call(t.Context(), "tools/call", `{"name":"begin","arguments":{}}`); err != nil || !strings.Contains(string(got), `"taskId":"t-1"`) {
		t.Fatalf("%s, %v; want a task", got, err)
	}
	get := func(i int) {
		t.Helper()
		c.URL = w.replicas[i].url()
		if got, err := c.Call(t.Context(), "tasks/get", `{"taskId":"t-1"}`); err != nil || !strings.Contains(string(got), `"status":"completed"`) {
			t.Errorf("tasks/get at replica %d: %s, %v", i, got, err)
		}
		if got, err := c.Call(t.Context(), "tasks/get", `{"taskId":"t-2"}`); err == nil {
			t.Errorf("tasks/get of an unknown task at replica %d: %s", i, got)
		}
	}
	for i := range 3 {
		get(i)
	}
	w.replicas[0].process.Kill()
	for i := range 2 {
		get(i + 1)
	}
}
