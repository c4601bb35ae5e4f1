package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/cluster"
	"github.com/vmcp-dev/vmcp/config/kube/cluster/clustertest"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy"
)

const ops = `apiVersion: vmcp.dev/v1alpha1
kind: VirtualMCPServer
metadata: {name: ops}
spec:
  groupRef: {name: ops}
  incomingAuth: {type: anonymous}
  config:
    scriptedToolRefs: [{name: triage}]
`

const github = `apiVersion: vmcp.dev/v1alpha1
kind: MCPServerEntry
metadata: {name: github}
spec:
  groupRef: {name: ops}
  remoteUrl: http://127.0.0.1:1/mcp
  transport: streamable-http
  headerForward:
    addHeadersFromSecret: [{headerName: Authorization, valueSecretRef: {name: token, key: header}}]
`

func triage(script string) string {
	text, _ := json.Marshal(script)
	return `apiVersion: vmcp.dev/v1alpha1
kind: VirtualMCPScriptedToolDefinition
metadata: {name: triage}
spec: {name: triage, description: Finds issues., parameters: {type: object}, script: ` + string(text) + "}\n"
}

const goodScript = "def run(params):\n    return 1\n"

// tokenSecret is a Secret; "QmVhcmVy..." is its value.
func tokenSecret(value string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\ndata: {header: " + value + "}\n"
}

const secretValue, secretData = "Bearer s3cr3t-${HOME}-value", "QmVhcmVyIHMzY3IzdC0ke0hPTUV9LXZhbHVlCg=="

// served implements Servers: it records the applied configurations.
type served struct {
	mu      sync.Mutex
	known   []string
	configs map[string]*config.Config
	applied int
	changed chan struct{} // closed and replaced with every change
	live    chan struct{}
	refuse  func(*config.Config) error
}

func newServed() *served {
	return &served{configs: map[string]*config.Config{}, changed: make(chan struct{}), live: make(chan struct{}, 1)}
}

func (s *served) Known(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = names
	for name := range s.configs {
		if !slices.Contains(names, name) {
			delete(s.configs, name)
		}
	}
	s.note()
}

func (s *served) note() { close(s.changed); s.changed = make(chan struct{}) }

func (s *served) Apply(name string, cfg *config.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.note()
	if s.refuse != nil && cfg != nil {
		if err := s.refuse(cfg); err != nil {
			return err
		}
	}
	if s.configs[name] = cfg; cfg != nil {
		s.applied++
	}
	return nil
}

func (s *served) Backends(server string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]string{}
	if cfg := s.configs[server]; cfg != nil {
		for _, b := range cfg.Backends {
			all[b.Name] = ""
		}
	}
	return all
}

func (s *served) Changed() <-chan struct{} { return s.live }

// now returns the last applied configuration of a server; nil: none.
func (s *served) now(name string) *config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.configs[name]
}

// script returns the script of the first scripted tool of ops.
func (s *served) script() string {
	if cfg := s.now("ops"); cfg != nil && len(cfg.ScriptedTools) > 0 {
		return cfg.ScriptedTools[0].Script
	}
	return ""
}

// running is a started source.
type running struct {
	*cluster.Source
	servers *served
	stop    func() // stops it and waits for its end
	log     *testkit.Buffer
}

func start(t *testing.T, api *clustertest.API, identity string) *running {
	t.Helper()
	return startOnly(t, api, identity, "")
}

// startOnly starts the source of a process with --server.
func startOnly(t *testing.T, api *clustertest.API, identity, only string) *running {
	t.Helper()
	r := &running{servers: newServed(), log: &testkit.Buffer{}}
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	client, err := cluster.Connect(cluster.Access{Kubeconfig: api.Kubeconfig(t)}, log)
	if err != nil {
		t.Fatal(err)
	}
	if client.Namespace != clustertest.Namespace {
		t.Fatalf("namespace %q", client.Namespace)
	}
	r.Source = cluster.New(client, cluster.Options{Servers: r.servers, Only: only, Identity: identity,
		Resolver: resolve.New(resolve.Options{Check: proxy.CheckTools, AllowAnonymous: true, Only: only})})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() { cancel(); <-done; client.Close() })
	t.Cleanup(r.stop)
	return r
}

// until waits until a condition is true.
func until(t *testing.T, api *clustertest.API, r *running, what string, is func() bool) {
	t.Helper()
	late := time.After(3 * time.Minute)
	for {
		r.servers.mu.Lock()
		changed := r.servers.changed
		r.servers.mu.Unlock()
		objects := api.Changed()
		if is() {
			return
		}
		select {
		case <-changed:
		case <-objects:
		case <-time.After(20 * time.Millisecond): // nothing notifies of changes of Health
		case <-late:
			t.Fatalf("not so: %s\nhealth %+v\n%s", what, r.Health(), r.log)
		}
	}
}

// condition returns "STATUS REASON" of a condition of an object.
func condition(api *clustertest.API, kind, name, of string) string {
	status, _ := api.Object(kind, name)["status"].(map[string]any)
	all, _ := status["conditions"].([]any)
	for _, c := range all {
		if c := c.(map[string]any); c["type"] == of {
			return fmt.Sprintf("%v %v", c["status"], c["reason"])
		}
	}
	return ""
}

func message(api *clustertest.API, kind, name, of string) string {
	status, _ := api.Object(kind, name)["status"].(map[string]any)
	all, _ := status["conditions"].([]any)
	for _, c := range all {
		if c := c.(map[string]any); c["type"] == of {
			return c["message"].(string)
		}
	}
	return ""
}

func generation(api *clustertest.API, kind, name, field string) any {
	status, _ := api.Object(kind, name)["status"].(map[string]any)
	return status[field]
}

// TestObjectsAreServed: the configuration of objects is applied, with the exact values of Secrets, and the status of
// every object is written once; only referenced ConfigMaps and Secrets are read.
func TestObjectsAreServed(t *testing.T) {
	api := clustertest.New(t)
	api.Apply(ops + "---\n" + github + "---\n" + triage(goodScript) + "---\n" + tokenSecret(secretData))
	api.Apply("apiVersion: v1\nkind: Secret\nmetadata: {name: others}\ndata: {a: Yg==}\n")
	r := start(t, api, "a")
	until(t, api, r, "ops is ready", func() bool {
		return condition(api, "VirtualMCPServer", "ops", "Ready") == "True Served" && condition(api, "MCPServerEntry", "github", "Ready") == "True Served" &&
			condition(api, "VirtualMCPScriptedToolDefinition", "triage", "Ready") == "True Served"
	})
	if got := r.servers.now("ops").Backends[0].Headers["Authorization"]; got != secretValue {
		t.Errorf("the header is %q", got)
	}
	if h := r.Health(); !h.Synced || !h.Complete || h.Error != "" || h.Namespace != clustertest.Namespace {
		t.Errorf("health %+v", h)
	}
	api.Apply(triage("def run(params):\n    return 2\n"))
	until(t, api, r, "the new script is applied, and told", func() bool {
		return strings.Contains(r.servers.script(), "return 2") && generation(api, "VirtualMCPScriptedToolDefinition", "triage", "appliedGeneration") == 2.0
	})
	writes := api.Asked("patch", "virtualmcpservers/status") + api.Asked("patch", "mcpserverentries/status") + api.Asked("patch", "virtualmcpscriptedtooldefinitions/status")
	if st := r.Stats(); st.Writes["ok"] < 3 || st.Writes["error"] != 0 || writes > 8 || !st.Accepted || st.Synced.IsZero() {
		t.Errorf("stats %+v after %d writes", st, writes)
	}
	api.Delete("VirtualMCPServer", "ops")
	until(t, api, r, "a deleted server is gone", func() bool { return r.servers.now("ops") == nil })
	for _, verb := range api.Verbs() {
		if strings.HasPrefix(verb, "get ") && verb != "get leases" || strings.HasPrefix(verb, "delete") {
			t.Errorf("asked for %s", verb)
		}
	}
}

// TestWhoMayComeInIsAppliedAgain: if incomingAuth has changed and cannot be applied for a transient reason, nothing is
// served until a retry succeeds.
func TestWhoMayComeInIsAppliedAgain(t *testing.T) {
	testmode.NeedThorough(t)
	api := clustertest.New(t)
	api.Apply(ops + "---\n" + triage(goodScript))
	r := start(t, api, "a")
	until(t, api, r, "served", func() bool { return condition(api, "VirtualMCPServer", "ops", "Ready") == "True Served" })
	refuse := func(f func(*config.Config) error) {
		r.servers.mu.Lock()
		defer r.servers.mu.Unlock()
		r.servers.refuse = f
	}
	tried := 0 // guarded by the servers' mu
	refuse(func(*config.Config) error { tried++; return errors.New("the database is away") })
	api.Apply(strings.Replace(ops, "{type: anonymous}", "{type: anonymous, authzConfig: {type: inline, inline: {policies: ['forbid(principal, action, resource);']}}}", 1))
	until(t, api, r, "the version before, which was more open, is not served", func() bool {
		return r.servers.now("ops") == nil && condition(api, "VirtualMCPServer", "ops", "Ready") == "False NotServed"
	})
	if got := message(api, "VirtualMCPServer", "ops", "Ready"); !strings.Contains(got, "the database is away") {
		t.Errorf("message %q", got)
	}
	until(t, api, r, "it is tried again", func() bool {
		r.servers.mu.Lock()
		defer r.servers.mu.Unlock()
		return tried >= 2
	})
	refuse(nil)
	until(t, api, r, "the new version is served", func() bool {
		return r.servers.now("ops") != nil && condition(api, "VirtualMCPServer", "ops", "Ready") == "True Served"
	})
	if got := r.servers.now("ops").IncomingAuth.Authz.Policies; len(got) != 1 {
		t.Errorf("policies %q", got)
	}
}

// TestBrokenScript: the last good version is still served, the status has the position of the error, and events report
// its beginning and end.
func TestBrokenScript(t *testing.T) {
	api := clustertest.New(t)
	api.Apply(ops + "---\n" + triage(goodScript))
	r := start(t, api, "a")
	until(t, api, r, "served", func() bool { return condition(api, "VirtualMCPServer", "ops", "Ready") == "True Served" })
	api.Apply(triage("def run(params):\n    return nothing\n"))
	until(t, api, r, "told", func() bool {
		return condition(api, "VirtualMCPScriptedToolDefinition", "triage", "ScriptsValid") == "False CompileFailed" && condition(api, "VirtualMCPServer", "ops", "ScriptsValid") == "False CompileFailed"
	})
	if got := message(api, "VirtualMCPScriptedToolDefinition", "triage", "ScriptsValid"); !strings.Contains(got, "triage.star:2:12") {
		t.Errorf("message %q", got)
	}
	if condition(api, "VirtualMCPServer", "ops", "Ready") != "True Served" || r.servers.script() != goodScript {
		t.Errorf("a broken tool took its server down, or its last version: %q", r.servers.script())
	}
	api.Apply(triage(goodScript + "\n"))
	until(t, api, r, "mended", func() bool {
		return condition(api, "VirtualMCPScriptedToolDefinition", "triage", "ScriptsValid") == "True Compiled" && count(api, "Normal") >= 2
	})
	if n := count(api, "Warning"); n < 1 || n > 4 {
		t.Errorf("%d warnings", n)
	}
}

func count(api *clustertest.API, kind string) (n int) {
	for _, e := range api.Objects("Event") {
		if e["type"] == kind {
			n++
		}
	}
	return n
}

// TestWatchesEnd: after a watch was cut, and after 410, earlier and later changes are served, and repeated events apply
// nothing twice.
func TestWatchesEnd(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{true, false} {
		api := clustertest.New(t)
		if api.Repeat(); !streams {
			api.NoStreams()
		}
		api.Apply(ops + "---\n" + triage(goodScript))
		r := start(t, api, "a")
		until(t, api, r, "served", func() bool { return r.servers.script() == goodScript })
		for i, end := range []func(){api.Cut, api.Expire, api.Cut} {
			script := fmt.Sprintf("def run(params):\n    return %d\n", i)
			end()
			api.Apply(triage(script))
			until(t, api, r, "served after a watch ended", func() bool { return r.servers.script() == script })
		}
		if n := r.servers.applied; n != 4 {
			t.Errorf("streams %v: applied %d times, want 4", streams, n)
		}
		r.stop()
	}
}

// TestAPIServerAway: the servers stay served, Health reports the error, and changes are served after the API server's
// return.
func TestAPIServerAway(t *testing.T) {
	api := clustertest.New(t)
	api.Apply(ops + "---\n" + triage(goodScript))
	r := start(t, api, "a")
	until(t, api, r, "served", func() bool { return condition(api, "VirtualMCPServer", "ops", "Ready") == "True Served" })
	logged := strings.Count(r.log.String(), "does not answer")
	api.Away()
	until(t, api, r, "the health says so", func() bool { return r.Health().Error != "" })
	if h := r.Health(); h.Synced || !h.Complete || r.servers.script() != goodScript {
		t.Errorf("health %+v", h)
	}
	if n := strings.Count(r.log.String(), "does not answer") - logged; n != 1 {
		t.Errorf("an outage is logged %d times", n)
	}
	api.Apply(triage("def run(params):\n    return 2\n"))
	api.Back(t)
	until(t, api, r, "served after its return", func() bool {
		return strings.Contains(r.servers.script(), "return 2") && r.Health().Error == ""
	})
}

// TestMissingKind: nothing is served before all kinds are installed, and Health names the missing one.
func TestMissingKind(t *testing.T) {
	api := clustertest.New(t)
	api.Refuse("mcpserverentries", http.StatusNotFound)
	api.Apply(ops + "---\n" + triage(goodScript))
	r := start(t, api, "a")
	until(t, api, r, "the kind is named", func() bool { return strings.Contains(r.Health().Waiting, "the kind MCPServerEntry of vmcp.dev") })
	if h := r.Health(); h.Complete || r.servers.now("ops") != nil {
		t.Errorf("health %+v", h)
	}
	api.Refuse("mcpserverentries", 0)
	until(t, api, r, "served", func() bool { return r.Health().Complete && r.Health().Error == "" })
}

// TestForbiddenSecrets: objects that need no Secret are served, the status of the others names it, and they are served
// when the Role is corrected.
func TestForbiddenSecrets(t *testing.T) {
	api := clustertest.New(t)
	api.Refuse("secrets", http.StatusForbidden)
	api.Apply(ops + "---\n" + github + "---\n" + triage(goodScript) + "---\n" + tokenSecret(secretData))
	r := start(t, api, "a")
	until(t, api, r, "told", func() bool {
		return condition(api, "MCPServerEntry", "github", "Accepted") == "False RefNotFound" && condition(api, "VirtualMCPServer", "ops", "Ready") == "True Served"
	})
	if h := r.Health(); !strings.Contains(h.Error, "Secret token: list and watch are forbidden") || len(r.servers.now("ops").Backends) != 0 {
		t.Errorf("health %+v", h)
	}
	api.Refuse("secrets", 0)
	until(t, api, r, "served with the Secret", func() bool { return len(r.servers.now("ops").Backends) == 1 })
}

// TestSlowFirstList: a kind that was not listed yet does not count as empty.
func TestSlowFirstList(t *testing.T) {
	api := clustertest.New(t)
	release := api.HoldLists()
	api.Apply(ops + "---\n" + triage(goodScript))
	r := start(t, api, "a")
	until(t, api, r, "all lists are under way", func() bool {
		return api.Asked("list", "mcpserverentries")+api.Asked("watch", "mcpserverentries") > 0
	})
	if h := r.Health(); h.Complete || h.Synced {
		t.Errorf("health %+v", h)
	}
	release()
	until(t, api, r, "served", func() bool { return r.servers.script() == goodScript && r.Health().Complete })
}

// TestOneWriter: of two processes one writes, no resourceVersion changes once all statuses are written, and the other
// process writes when the first ends.
func TestOneWriter(t *testing.T) {
	t.Parallel()
	api := clustertest.New(t)
	api.Apply(ops + "---\n" + triage(goodScript))
	first := start(t, api, "first")
	until(t, api, first, "told", func() bool { return condition(api, "VirtualMCPServer", "ops", "Ready") == "True Served" })
	second := start(t, api, "second")
	until(t, api, second, "served by both", func() bool { return second.servers.script() == goodScript })
	if holder := holder(api); holder != "first" {
		t.Errorf("the lease is held by %q", holder)
	}
	before := api.Object("VirtualMCPServer", "ops")["metadata"].(map[string]any)["resourceVersion"]
	api.Apply(triage("def run(params):\n    return 2\n"))
	until(t, api, second, "served by both", func() bool {
		return strings.Contains(second.servers.script(), "return 2") && generation(api, "VirtualMCPScriptedToolDefinition", "triage", "appliedGeneration") == 2.0
	})
	if after := api.Object("VirtualMCPServer", "ops")["metadata"].(map[string]any)["resourceVersion"]; after != before {
		t.Errorf("the status of the server was written again: version %v, then %v", before, after)
	}
	if n := second.Stats().Writes["ok"]; n != 0 {
		t.Errorf("the second process wrote %d statuses", n)
	}
	first.stop()
	until(t, api, second, "the second holds the lease", func() bool { return holder(api) == "second" })
	api.Apply(triage("def run(params):\n    return 3\n"))
	until(t, api, second, "the second writes", func() bool {
		return generation(api, "VirtualMCPScriptedToolDefinition", "triage", "appliedGeneration") == 3.0
	})
}

func holder(api *clustertest.API) any {
	spec, _ := api.Object("Lease", cluster.LeaseOf(""))["spec"].(map[string]any)
	return spec["holderIdentity"]
}

// TestAnotherObjectOfTheName: a new object does not get the status of a deleted one of the same name.
func TestAnotherObjectOfTheName(t *testing.T) {
	api := clustertest.New(t)
	api.Apply(ops + "---\n" + triage(goodScript))
	r := start(t, api, "a")
	until(t, api, r, "told", func() bool { return condition(api, "VirtualMCPServer", "ops", "Ready") == "True Served" })
	api.Delete("VirtualMCPScriptedToolDefinition", "triage")
	api.Apply(triage("def run(params):\n    return nothing\n"))
	until(t, api, r, "the new one gets its own status", func() bool {
		return condition(api, "VirtualMCPScriptedToolDefinition", "triage", "Ready") == "False NotServed"
	})
	if got := generation(api, "VirtualMCPScriptedToolDefinition", "triage", "appliedGeneration"); got != nil {
		t.Errorf("appliedGeneration %v", got)
	}
}

// TestSecretsAreNowhere: values of Secrets are not in the log, at any level, nor in another object, nor in Health.
func TestSecretsAreNowhere(t *testing.T) {
	api := clustertest.New(t)
	api.Apply(ops + "---\n" + github + "---\n" + triage(goodScript) + "---\n" + tokenSecret(secretData))
	r := start(t, api, "a")
	until(t, api, r, "told", func() bool { return condition(api, "MCPServerEntry", "github", "Ready") == "True Served" })
	api.Apply(tokenSecret("QmVhcmVyIHMzY3IzdAFub25l")) // with a control character
	until(t, api, r, "told that it is wrong", func() bool { return condition(api, "MCPServerEntry", "github", "Accepted") == "False InvalidSecret" })
	var seen strings.Builder
	for _, kind := range []string{"VirtualMCPServer", "MCPServerEntry", "VirtualMCPScriptedToolDefinition", "Event", "Lease"} {
		fmt.Fprintf(&seen, "%v\n", api.Objects(kind))
	}
	fmt.Fprintf(&seen, "%s\n%+v\n%+v\n", r.log, r.Health(), r.Stats())
	for _, secret := range []string{"s3cr3t", secretData, "QmVhcmVyIHMz"} {
		if strings.Contains(seen.String(), secret) {
			t.Errorf("%s is in %s", secret, seen.String())
		}
	}
	if got := r.servers.now("ops").Backends[0].Headers["Authorization"]; got != secretValue {
		t.Errorf("after a value that cannot be used the header is %q, want the one before", got)
	}
}

// TestManyObjects: 500 tools and one with an error; Run leaves no goroutine behind.
func TestManyObjects(t *testing.T) {
	api := clustertest.New(t)
	before := runtime.NumGoroutine()
	var refs []string
	for i := range 500 {
		refs = append(refs, fmt.Sprintf("{name: t%d}", i))
		script := goodScript
		if i == 250 {
			script = "def run(params):\n    return nothing\n"
		}
		api.Apply(strings.NewReplacer("{name: triage}", fmt.Sprintf("{name: t%d}", i), "name: triage,", fmt.Sprintf("name: t%d,", i)).Replace(triage(script)))
	}
	api.Apply(strings.Replace(ops, "[{name: triage}]", "["+strings.Join(refs, ", ")+"]", 1))
	r := start(t, api, "a")
	until(t, api, r, "all have a status", func() bool {
		return r.Stats().Writes["ok"] >= 502-1 && condition(api, "VirtualMCPServer", "ops", "Ready") == "True Served"
	})
	if n := len(r.servers.now("ops").ScriptedTools); n != 499 {
		t.Errorf("%d tools are served", n)
	}
	if got := message(api, "VirtualMCPServer", "ops", "ScriptsValid"); !strings.Contains(got, "1 of 500 tools: t250: t250.star:2:12") {
		t.Errorf("message %q", got)
	}
	for _, c := range r.Stats().Objects {
		if c.Kind == "VirtualMCPScriptedToolDefinition" && (c.Accepted != 499 || c.Rejected != 1) {
			t.Errorf("counted %+v", c)
		}
	}
	r.stop()
	late := time.Now().Add(time.Minute)
	for runtime.NumGoroutine() > before+3 && time.Now().Before(late) { // goroutines of net/http's connections end later
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before+3 {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before:\n%s", n, before, stacks[:runtime.Stack(stacks, true)])
	}
}

// TestClientGoIsQuiet: messages of client-go are logged at level Debug, and its logs of bodies, which contain Secrets,
// are dropped.
func TestClientGoIsQuiet(t *testing.T) {
	api := clustertest.New(t)
	for level, want := range map[slog.Level]string{slog.LevelInfo: "", slog.LevelDebug: "no watch"} {
		var b bytes.Buffer
		if _, err := cluster.Connect(cluster.Access{Kubeconfig: api.Kubeconfig(t)}, slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level}))); err != nil {
			t.Fatal(err)
		}
		klog.Background().Error(nil, "no watch")
		klog.Background().V(8).Info("Response Body")
		if got := b.String(); strings.Contains(got, "Body") || (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("at %v: %q", level, got)
		}
	}
}
