//go:build unix

package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/status"
	durablepkg "github.com/vmcp-dev/vmcp/script/durable"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// replica is one of several proxies over a database.
type replica struct {
	*proxy.Proxy
	t          *testing.T
	url, admin string
	cfg        config.Config
}

// startReplica starts one. key is the byte of which its key consists.
func startReplica(t *testing.T, server *runstest.Server, key byte, cfg config.Config) *replica {
	t.Helper()
	encrypt := true
	cfg.SessionStorage = config.SessionStorage{Provider: config.StoragePostgres, URL: server.URL(), MaxConnections: 4, Encrypt: &encrypt,
		Keys: []config.StorageKey{{ID: "k", Key: []byte(strings.Repeat(string(key), 32))}}}
	l := testkit.Listen(t)
	at := l.Addr().String()
	l.Close()
	cfg.Cluster = config.Cluster{Listen: at, Advertise: at, Heartbeat: config.Duration(2 * time.Second), ForwardTimeout: config.Duration(20 * time.Second)} // no machine is so slow
	p := proxy.New(proxy.Options{Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), Version: "test", OpenStore: func(c *config.Config) (durablepkg.Store, *durablepkg.Ring, error) {
		return sqlstore.Open(context.Background(), c, sqlstore.How{})
	}})
	srv, admin := httptest.NewServer(p.Handler()), httptest.NewServer(p.AdminHandler())
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		srv.Close()
		admin.Close()
	})
	if err := p.Apply(&cfg); err != nil {
		t.Fatal(err)
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &replica{p, t, srv.URL + "/mcp", admin.URL, cfg}
}

// ask sends a request of a stateless client.
func (r *replica) ask(method, name, params string) string {
	headers := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		headers = append(headers, "Mcp-Name", name)
	}
	_, body := (&raw{t: r.t, url: r.url}).do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,%s}}`, method, params, modernMeta), headers...)
	return body
}

// details are those of /readyz.
func (r *replica) details() (status int, page proxy.Status) {
	r.t.Helper()
	resp, body := ask(r.t, "GET", r.admin+"/readyz", "", "")
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		r.t.Fatalf("/readyz: %s: %v", body, err)
	}
	return resp.StatusCode, page
}

// sees waits until a replica has n replicas in its view.
func (r *replica) sees(n int) {
	r.t.Helper()
	testkit.Eventually(r.t, fmt.Sprintf("%d replicas", n), func() bool { return r.Members().Live() == n })
}

// Tasks, limits and the details of /readyz are those of all replicas; one with other keys is not ready; and what needs no
// store goes on without.
func TestReplicas(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	var begun atomic.Int32
	backend := &backendtest.Raw{Modern: true, Tools: toolsNamed("t", 2), Handle: func(x *backendtest.Exchange) {
		switch x.Message.Method {
		case "tools/call":
			if jsonscan.GetString(x.Message.Params, "name") == "t1" {
				x.JSON(`{"resultType":"complete","content":[]}`)
				return
			}
			x.JSON(fmt.Sprintf(`{"resultType":"task","taskId":"task-%d","status":"working"}`, begun.Add(1)))
		case "tasks/get":
			x.JSON(`{"resultType":"complete","status":"completed","result":{"content":[]}}`)
		}
	}}
	cfg := config.Config{
		Backends:     []config.Backend{{Name: "b", URL: backend.Start(t)}},
		RateLimiting: config.RateLimiting{Tools: []config.ToolRate{{Name: "b.t1", Shared: config.Bucket{MaxTokens: 3, RefillPeriod: config.Duration(24 * time.Hour)}}}},
	}
	a, b := startReplica(t, server, 'k', cfg), startReplica(t, server, 'k', cfg)
	c := startReplica(t, server, 'k', cfg)
	all := []*replica{a, b, c}
	for _, r := range all {
		r.sees(3)
	}
	if got := a.ask("tools/call", "t0", `"name":"t0","arguments":{}`); !strings.Contains(got, `"taskId":"task-1"`) {
		t.Fatalf("tools/call: %s", got)
	}
	for i, r := range all {
		if got := r.ask("tasks/get", "", `"taskId":"task-1"`); !strings.Contains(got, `"completed"`) {
			t.Errorf("tasks/get at replica %d: %s", i, got)
		}
		if got := r.ask("tasks/get", "", `"taskId":"task-9"`); !strings.Contains(got, "unknown task: task-9") {
			t.Errorf("tasks/get of nobody's task at replica %d: %s", i, got)
		}
	}
	testSeen(t, all)
	testStatusOfAll(t, all)
	for i, r := range all { // three calls a day are one for each replica
		for try, want := range []string{`"content":[]`, `rateLimiting.tools.shared`} {
			if got := r.ask("tools/call", "t1", `"name":"t1","arguments":{}`); !strings.Contains(got, want) {
				t.Errorf("call %d of a limited tool at replica %d: %s, want %s", try, i, got, want)
			}
		}
	}

	odd := startReplica(t, server, 'x', cfg)
	if status, page := odd.details(); status != http.StatusServiceUnavailable || page.Ready || !strings.Contains(page.Cluster.Error, "sessionStorage.keys") {
		t.Errorf("a replica with other keys: %d, %+v", status, page.Cluster)
	}
	a.sees(4)
	if status, page := a.details(); status != http.StatusOK || !page.Ready {
		t.Errorf("beside one with other keys: %d, %+v", status, page.Cluster)
	}
	odd.Close()
	a.sees(3)
	b.sees(3)

	server.Down(t)
	defer server.Up(t)
	if status, page := b.details(); status != http.StatusOK || page.Storage.OK || page.Storage.Error == "" || page.Cluster.Replicas != 3 {
		t.Errorf("without the store: %d, %+v, %+v", status, page.Storage, page.Cluster)
	}
	if got := b.ask("tools/call", "t0", `"name":"t0","arguments":{}`); !strings.Contains(got, `"taskId":"task-2"`) {
		t.Errorf("tools/call without the store: %s", got)
	}
	if got := b.ask("tasks/get", "", `"taskId":"task-2"`); !strings.Contains(got, `"completed"`) {
		t.Errorf("tasks/get without the store, where the task is known: %s", got)
	}
	if got := c.ask("tasks/get", "", `"taskId":"task-2"`); !strings.Contains(got, `-32603`) || !strings.Contains(got, `{"reason":"store"}`) {
		t.Errorf("tasks/get without the store: %s", got)
	}
}

// testStatusOfAll: the replica that an operator asks requests the status of the others.
func testStatusOfAll(t *testing.T, all []*replica) {
	t.Helper()
	for i, r := range all {
		_, body := ask(t, "GET", r.admin+"/api/v1/replicas", "", "")
		var got struct{ Replicas []status.Replica }
		if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Replicas) != len(all) || got.Replicas[0].ID != r.Members().Self() {
			t.Fatalf("/api/v1/replicas of replica %d: %s", i, body)
		}
		for _, one := range got.Replicas {
			if one.Error != "" || one.Status == nil || one.Status.Cluster.ID != one.ID || !one.Status.Ready || len(one.Status.Backends) != 1 {
				t.Errorf("replica %s, asked by %d: %+v", one.ID, i, one)
			}
		}
	}
}

// testSeen: replicas with equal files have equal hashes, and report the number of replicas.
func testSeen(t *testing.T, all []*replica) {
	t.Helper()
	hash := all[0].Applied().Config().Hash
	for i, r := range all {
		testkit.Eventually(t, "one configuration", func() bool { return r.Members().Configurations()[hash] == len(all) })
		status, page := r.details()
		if status != http.StatusOK || page.Cluster.ID != r.Members().Self() || page.Cluster.Replicas != 3 || page.Cluster.Advertise != r.cfg.Cluster.Advertise ||
			page.Config.Hash != hash || page.Config.Generation != 1 || page.Config.AppliedAt.IsZero() || page.Storage.Provider != "postgres" {
			t.Errorf("/readyz of replica %d: %d, %+v, %+v, %+v", i, status, page.Cluster, page.Config, page.Storage)
		}
		if _, body := ask(t, "GET", r.admin+"/metrics", "", ""); !strings.Contains(body, "\nvmcp_cluster_replicas 3\n") || !strings.Contains(body, "\nvmcp_cluster_configs 1\n") {
			t.Errorf("/metrics of replica %d: no replicas", i)
		}
	}
}

// TestDeletedWithoutTheStore: a session that its client deletes while the store is away is over, and when that is back and
// its owner gone nobody begins it anew.
func TestDeletedWithoutTheStore(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	a, b := startReplica(t, server, 'k', config.Config{}), startReplica(t, server, 'k', config.Config{})
	a.sees(2)
	b.sees(2)
	resp, _ := (&raw{t: t, url: a.url}).do("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	id := resp.Header.Get("Mcp-Session-Id")
	status := func(r *replica, method, body string) int {
		resp, _ := (&raw{t: t, url: r.url}).do(method, body, "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25")
		return resp.StatusCode
	}
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	if got := status(b, "POST", ping); got != http.StatusOK {
		t.Fatalf("a ping: %d", got)
	}
	server.Down(t)
	if got := status(b, "DELETE", ""); got != http.StatusNoContent {
		t.Errorf("DELETE without the store: %d", got)
	}
	for i, r := range []*replica{a, b} {
		if got := status(r, "POST", ping); got != http.StatusNotFound {
			t.Errorf("a deleted session at replica %d, without the store: %d, want 404", i, got)
		}
	}
	server.Up(t)
	testkit.Eventually(t, "the end is noted", func() bool {
		conn, err := pgx.Connect(t.Context(), server.URL())
		if err != nil {
			return false
		}
		defer conn.Close(context.Background())
		var n int
		err = conn.QueryRow(t.Context(), `SELECT count(*) FROM "`+b.Members().Schema()+`".sessions WHERE deleted`).Scan(&n)
		return err == nil && n == 1
	})
	a.Members().Leave()
	b.sees(1)
	if got := status(b, "POST", ping); got != http.StatusNotFound {
		t.Errorf("a deleted session whose owner is gone: %d, want 404", got)
	}
}
