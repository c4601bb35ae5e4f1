//go:build suites

package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

func server(tools ...string) string {
	refs := make([]string, len(tools))
	for i, name := range tools {
		refs[i] = "{name: " + name + "}"
	}
	return "apiVersion: vmcp.dev/v1alpha1\nkind: VirtualMCPServer\nmetadata: {name: ops}\nspec:\n  groupRef: {name: ops}\n  incomingAuth: {type: anonymous}\n  config:\n    scriptedToolRefs: [" + strings.Join(refs, ", ") + "]\n"
}

func tool(name, result string) string {
	script, _ := json.Marshal("def run(params):\n    return " + result + "\n")
	return "apiVersion: vmcp.dev/v1alpha1\nkind: VirtualMCPScriptedToolDefinition\nmetadata: {name: " + name + "}\nspec: {name: " + name + ", description: A tool of tests., parameters: {type: object}, script: " + string(script) + "}\n"
}

const scripted, served = "VirtualMCPScriptedToolDefinition", "VirtualMCPServer"

// TestManyTools: 500 tools and a broken one; the error of the broken one has its position, and the others are served. A changed
// tool is served soon, and after a broken edit the last valid version is served.
func TestManyTools(t *testing.T) {
	c := start(t)
	var names []string
	for i := range 501 {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	for _, name := range names {
		result := "'" + name + "'"
		if name == "t250" {
			result = "nothing"
		}
		c.apply(tool(name, result))
	}
	c.apply(server(names...))
	began := time.Now()
	r := c.serve()
	c.awaitPage(r, "/readyz", 200)
	t.Logf("ready after %v", time.Since(began).Round(time.Millisecond))
	if _, list := r.ask("tools/list", ""); strings.Count(list, `"description":"A tool of tests."`) != 500 {
		t.Errorf("%d tools are listed, want 500", strings.Count(list, `"description":"A tool of tests."`))
	}
	c.awaitCondition(served, "ops", "Ready", "True Served")
	c.awaitCondition(scripted, "t500", "Ready", "True Served")
	t.Logf("501 statuses after %v", time.Since(began).Round(time.Millisecond))
	if is, text := c.condition(scripted, "t250", "ScriptsValid"); is != "False CompileFailed" || !strings.Contains(text, "t250.star:2:12") || !strings.Contains(text, "nothing") {
		t.Errorf("the broken tool is %s: %s", is, text)
	}
	if is, text := c.condition(served, "ops", "ScriptsValid"); is != "False CompileFailed" || !strings.Contains(text, "1 of 501 tools: t250: t250.star:2:12") {
		t.Errorf("the server is %s: %s", is, text)
	}
	c.await("events", func() bool { n := warnings(c); return n >= 1 && n <= 4 })

	c.apply(tool("t0", "nothing"))
	c.awaitCondition(scripted, "t0", "ScriptsValid", "False CompileFailed")
	if text, ok := r.call("t0"); !ok || !strings.Contains(text, "t0") {
		t.Errorf("after a broken edit: %s", text)
	}
	if o := c.get(scripted, "t0"); o.Status.AppliedGeneration != o.Metadata.Generation-1 {
		t.Errorf("generation %d, applied %d", o.Metadata.Generation, o.Status.AppliedGeneration)
	}
	measureWrites(c, r)
}

// measureWrites measures the time from the write of a tool until a call uses it.
func measureWrites(c *cluster, r *replica) {
	var took []time.Duration
	for i := range 50 {
		want := fmt.Sprintf("version %d of it", i)
		began := time.Now()
		c.apply(tool("t1", "'"+want+"'"))
		for {
			if text, _ := r.call("t1"); strings.Contains(text, want) {
				break
			}
			if time.Since(began) > time.Minute {
				c.t.Fatalf("%s is not served after a minute", want)
			}
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	c.t.Logf("write to served, of 501 tools: p50 %v, p99 %v", took[25].Round(time.Millisecond), took[49].Round(time.Millisecond))
}

// warnings counts the events of kind Warning.
func warnings(c *cluster) (n int) {
	_, body := c.do("GET", "/apis/events.k8s.io/v1/namespaces/team/events", nil)
	return strings.Count(string(body), `"type":"Warning"`)
}

// TestSecretIsRotated under load: no call fails, later ones use the new value, and no output has it.
func TestSecretIsRotated(t *testing.T) {
	c := start(t)
	var newest atomic.Int64
	raw := &backendtest.Raw{Tools: `{"name":"echo","description":"Echoes.","inputSchema":{"type":"object"}}`, Session: "s"}
	raw.Handle = func(x *backendtest.Exchange) {
		var n int64
		if _, err := fmt.Sscanf(x.Request.Header.Get("Authorization"), "Bearer rotated-${HOME}-%d", &n); err != nil {
			x.WriteHeader(http.StatusUnauthorized)
			return
		}
		newest.Store(max(n, newest.Load()))
		x.JSON(`{"content":[{"type":"text","text":"hi"}]}`)
	}
	secret := func(n int) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {header: \"Bearer rotated-${HOME}-%d\\n\"}\n", n)
	}
	c.apply(secret(1) + "\n---\n" + server() + "\n---\napiVersion: vmcp.dev/v1alpha1\nkind: MCPServerEntry\nmetadata: {name: b}\nspec:\n  groupRef: {name: ops}\n  remoteUrl: " + raw.Start(t) +
		"\n  transport: streamable-http\n  headerForward: {addHeadersFromSecret: [{headerName: Authorization, valueSecretRef: {name: token, key: header}}]}\n")
	r := c.serve()
	c.awaitCondition("MCPServerEntry", "b", "Ready", "True Served")
	stop := make(chan struct{})
	var calls, failed atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				calls.Add(1)
				if text, ok := r.call("echo"); !ok {
					failed.Add(1)
					t.Errorf("a call failed: %s", text)
					return
				}
			}
		})
	}
	for n := 2; n <= 6; n++ {
		began := time.Now()
		c.apply(secret(n))
		c.await("the new value", func() bool { return newest.Load() == int64(n) })
		t.Logf("rotated after %v", time.Since(began).Round(time.Millisecond))
	}
	close(stop)
	all.Wait()
	t.Logf("%d calls, %d failed, %d sessions", calls.Load(), failed.Load(), len(raw.Seen("initialize")))
	if n := len(raw.Seen("initialize")); n > 2 {
		t.Errorf("%d sessions: the proxy has reconnected to the backend", n)
	}
	_, metrics := r.page("/metrics")
	_, ready := r.page("/readyz?tools")
	_, events := c.do("GET", "/apis/events.k8s.io/v1/namespaces/team/events", nil)
	_, entries := c.do("GET", "/apis/vmcp.dev/v1alpha1/namespaces/team/mcpserverentries", nil)
	for name, text := range map[string]string{"the log": r.log.String(), "metrics": metrics, "readyz": ready, "events": string(events), "status": string(entries)} {
		if strings.Contains(text, "rotated-") {
			t.Errorf("%s shows the secret", name)
		}
	}
}

// TestAPIServerKilled: calls still succeed, a process that starts meanwhile is alive and not ready, and both apply later changes.
func TestAPIServerKilled(t *testing.T) {
	c := start(t)
	c.apply(tool("one", "'first'") + "\n---\n" + server("one"))
	r := c.serve()
	c.awaitCondition(scripted, "one", "Ready", "True Served")
	c.kill()
	late := c.serveAway()
	away := time.Duration(testmode.Count(3, 20)) * time.Second
	calls := 0
	for began := time.Now(); time.Since(began) < away; calls++ {
		if text, ok := r.call("one"); !ok || !strings.Contains(text, "first") {
			t.Fatalf("call %d while the API server is down: %s", calls, text)
		}
		if status, text := r.page("/readyz"); status != 200 {
			t.Fatalf("readyz while the API server is down: %d %s", status, text)
		}
	}
	if status, _ := late.page("/healthz"); status != 200 {
		t.Errorf("healthz of a process that started meanwhile: %d", status)
	}
	if status, text := late.page("/readyz"); status != 503 {
		t.Errorf("readyz of a process that started meanwhile: %d %s", status, text)
	}
	c.run()
	began := time.Now()
	c.apply(tool("one", "'second'"))
	c.awaitPage(late, "/readyz", 200)
	for _, r := range []*replica{r, late} {
		c.await("the new version", func() bool { text, _ := r.call("one"); return strings.Contains(text, "second") })
	}
	t.Logf("%d calls in %v without an API server; both caught up %v after its return", calls, away, time.Since(began).Round(time.Millisecond))
}

// TestReplicas: of three, one writes status; unchanged status is not written, and when the writer is killed another one writes.
func TestReplicas(t *testing.T) {
	c := start(t)
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("t%d", i))
		c.apply(tool(names[i], "1"))
	}
	c.apply(server(names...))
	all := []*replica{c.serve(), c.serve(), c.serve()}
	for _, r := range all {
		c.awaitPage(r, "/readyz", 200)
	}
	for _, name := range names {
		c.awaitCondition(scripted, name, "Ready", "True Served")
	}
	c.awaitCondition(served, "ops", "Ready", "True Served")
	before := versions(c)
	time.Sleep(time.Duration(testmode.Count(3, 15)) * time.Second) // whether anything moves by itself
	if after := versions(c); !slices.Equal(before, after) {
		t.Errorf("versions moved:\n%v\n%v", before, after)
	}
	for _, m := range c.get(scripted, "t0").Metadata.ManagedFields {
		if m.Operation != "Apply" || m.Manager != "vmcp-ops" && m.Manager != "team" {
			t.Errorf("managed by %+v", m)
		}
	}
	writer := slices.IndexFunc(all, func(r *replica) bool { return strings.Contains(r.log.String(), "writes the status") })
	if writer < 0 {
		t.Fatal("no replica writes")
	}
	began := time.Now()
	all[writer].process.Kill()
	c.apply(tool("t0", "2"))
	c.await("another one writes", func() bool { o := c.get(scripted, "t0"); return o.Status.AppliedGeneration == o.Metadata.Generation })
	t.Logf("another process writes %v after the death of the first", time.Since(began).Round(time.Millisecond))
}

// leaseRole permits the leases of the servers a and b, as the chart with the value server does.
const leaseRole = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: leases}
rules:
  - {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [vmcp-status-a, vmcp-status-b], verbs: [get, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: leases}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leases}
subjects: [{kind: ServiceAccount, name: vmcp, namespace: team}]
`

// TestServersOfTheirOwn: two processes with --server report their servers and what these use, also the tool that both use;
// a process that is killed changes nothing of the other's, and one without --server leaves a to the process of a.
func TestServersOfTheirOwn(t *testing.T) {
	c := start(t)
	c.apply(leaseRole + "\n---\n" + tool("ta", "1") + "\n---\n" + tool("tb", "1") + "\n---\n" + tool("both", "1") + "\n---\n" +
		strings.ReplaceAll(server("ta", "both"), "name: ops", "name: a") + "\n---\n" + strings.ReplaceAll(server("tb", "both"), "name: ops", "name: b"))
	a, b := c.serveOnly("a"), c.serveOnly("b")
	ready := func(servers string) {
		t.Helper()
		for _, name := range []string{"a", "b"} {
			c.awaitCondition(served, name, "Ready", "True Served")
			c.awaitCondition(scripted, "t"+name, "Ready", "True Served")
		}
		c.awaitCondition(scripted, "both", "Ready", "True Served")
		if got := c.inServers(scripted, "both"); got != servers {
			t.Errorf("the shared tool is %s", got)
		}
	}
	ready("a True Served, b True Served")
	if got := c.get(served, "a").Status.Lease + " " + c.get(served, "b").Status.Lease; got != "vmcp-status-a vmcp-status-b" {
		t.Errorf("leases %s", got)
	}
	before := versions(c)
	time.Sleep(3 * time.Second) // whether anything moves by itself
	if after := versions(c); !slices.Equal(before, after) {
		t.Errorf("versions moved:\n%v\n%v", before, after)
	}

	b.process.Kill()
	c.apply(tool("both", "nothing"))
	c.await("a to report the broken tool", func() bool { return c.inServers(scripted, "both") == "a False LastGoodServed, b True Served" })
	c.awaitCondition(scripted, "both", "ScriptsValid", "False CompileFailed")
	if is, _ := c.condition(served, "b", "ScriptsValid"); is != "True Compiled" {
		t.Errorf("b, whose process was killed: %s", is)
	}
	began := time.Now()
	c.apply(tool("both", "2"))
	c.serveOnly("b")
	ready("a True Served, b True Served")
	t.Logf("b reports again %v after its process was killed and started", time.Since(began).Round(time.Millisecond))

	all := c.serve()
	c.awaitPage(all, "/readyz", 200)
	c.await("the process without --server to write", func() bool { return strings.Contains(all.log.String(), "writes the status") })
	before = versions(c)
	time.Sleep(3 * time.Second) // whether they overwrite each other
	if after := versions(c); !slices.Equal(before, after) {
		t.Errorf("beside a process without --server versions moved:\n%v\n%v", before, after)
	}
	_ = a.process.Stop()
	c.await("the process without --server to take over", func() bool { return c.get(served, "a").Status.Lease == "vmcp-status" })

	// The shared tool is not used by a any more, and by nobody at last.
	c.apply(strings.ReplaceAll(server("ta"), "name: ops", "name: a"))
	c.await("only b to use it", func() bool { return c.inServers(scripted, "both") == "b True Served" })
	c.apply(strings.ReplaceAll(server("tb"), "name: ops", "name: b"))
	c.awaitCondition(scripted, "both", "Ready", "False NotReferenced")
	if o := c.get(scripted, "both"); len(o.Status.Servers) != 0 || o.Status.AppliedGeneration != 0 {
		t.Errorf("a tool that is not used: %+v", o.Status)
	}
}

// versions are the resourceVersions of vmcp's objects.
func versions(c *cluster) (all []string) {
	for _, plural := range []string{"virtualmcpservers", "virtualmcpscriptedtooldefinitions"} {
		_, body := c.do("GET", "/apis/vmcp.dev/v1alpha1/namespaces/team/"+plural, nil)
		var list struct{ Items []object }
		if err := json.Unmarshal(body, &list); err != nil {
			c.t.Fatal(err)
		}
		for _, o := range list.Items {
			all = append(all, o.Metadata.Name+" "+o.Metadata.ResourceVersion)
		}
	}
	return all
}

// TestAccount: the ServiceAccount has only the permissions that it needs, which the other tests use.
func TestAccount(t *testing.T) {
	c := start(t)
	c.apply(tool("one", "1") + "\n---\n" + server("one"))
	token := c.account()
	ours := "/apis/vmcp.dev/v1alpha1/namespaces/team/"
	for _, tt := range []struct{ method, path string }{
		{"GET", "/api/v1/pods"}, {"GET", "/api/v1/namespaces"}, {"GET", "/api/v1/nodes"}, {"GET", "/api/v1/secrets"}, {"GET", "/api/v1/namespaces/default/secrets"},
		{"GET", "/api/v1/namespaces/default/configmaps"}, {"GET", "/apis/vmcp.dev/v1alpha1/namespaces/default/virtualmcpservers"}, {"GET", "/apis/vmcp.dev/v1alpha1/virtualmcpservers"},
		{"GET", "/api/v1/namespaces/team/pods"}, {"POST", "/api/v1/namespaces/team/pods"}, {"POST", "/api/v1/namespaces/team/secrets"}, {"DELETE", "/api/v1/namespaces/team/secrets/token"},
		{"POST", "/api/v1/namespaces/team/configmaps"}, {"PATCH", "/api/v1/namespaces/team/configmaps/m"}, {"POST", "/api/v1/namespaces/team/serviceaccounts/vmcp/token"},
		{"PATCH", ours + "virtualmcpservers/ops"}, {"PUT", ours + "virtualmcpservers/ops"}, {"DELETE", ours + "virtualmcpservers/ops"}, {"POST", ours + "virtualmcpservers"},
		{"PUT", ours + "virtualmcpservers/ops/status"}, {"PATCH", ours + "virtualmcpscriptedtooldefinitions/one"}, {"DELETE", ours + "virtualmcpscriptedtooldefinitions"},
		{"GET", "/apis/events.k8s.io/v1/namespaces/team/events"}, {"DELETE", "/apis/coordination.k8s.io/v1/namespaces/team/leases/vmcp-status"}, {"PUT", "/apis/coordination.k8s.io/v1/namespaces/team/leases/other"}, {"GET", "/apis/coordination.k8s.io/v1/namespaces/team/leases"},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/team/roles"}, {"GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"},
	} {
		body := []byte(`{"apiVersion":"v1","kind":"X","metadata":{"name":"x"}}`)
		if tt.method == "GET" {
			body = nil
		}
		kind := "application/json"
		if tt.method == "PATCH" {
			kind = "application/merge-patch+json"
		}
		if status, text := c.doAs(token, tt.method, tt.path, body, kind); status != http.StatusForbidden {
			t.Errorf("%s %s = %d %s, want 403", tt.method, tt.path, status, text)
		}
	}
	if status, text := c.doAs(token, "GET", ours+"virtualmcpservers", nil); status != http.StatusOK {
		t.Errorf("its own kinds: %d %s", status, text)
	}
}
