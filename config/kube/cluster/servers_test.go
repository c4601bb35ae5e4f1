package cluster_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config/kube/cluster"
	"github.com/vmcp-dev/vmcp/config/kube/cluster/clustertest"
)

// serverWith is the manifest of a server of a group, with references to tools.
func serverWith(name, group string, tools ...string) string {
	refs := []string{}
	for _, tool := range tools {
		refs = append(refs, "{name: "+tool+"}")
	}
	return fmt.Sprintf("apiVersion: vmcp.dev/v1alpha1\nkind: VirtualMCPServer\nmetadata: {name: %s}\nspec:\n  groupRef: {name: %s}\n  incomingAuth: {type: anonymous}\n  config: {scriptedToolRefs: [%s]}\n", name, group, strings.Join(refs, ", "))
}

// scriptedTool is the manifest of a tool.
func scriptedTool(name, script string) string {
	return strings.NewReplacer("{name: triage}", "{name: "+name+"}", "name: triage,", "name: "+name+",").Replace(triage(script))
}

func entryIn(name, group string) string {
	return fmt.Sprintf("apiVersion: vmcp.dev/v1alpha1\nkind: MCPServerEntry\nmetadata: {name: %s}\nspec: {groupRef: {name: %s}, remoteUrl: \"http://127.0.0.1:1/mcp\", transport: streamable-http}\n", name, group)
}

// inServers formats the Ready conditions of an object in the servers that use it: "a: True Served 1, …".
func inServers(api *clustertest.API, kind, name string) string {
	status, _ := api.Object(kind, name)["status"].(map[string]any)
	all, _ := status["servers"].([]any)
	texts := []string{}
	for _, one := range all {
		one := one.(map[string]any)
		for _, c := range one["conditions"].([]any) {
			if c := c.(map[string]any); c["type"] == "Ready" {
				texts = append(texts, fmt.Sprintf("%v: %v %v %v", one["name"], c["status"], c["reason"], one["appliedGeneration"]))
			}
		}
	}
	return strings.Join(texts, ", ")
}

const aServer, anEntry, aTool = "VirtualMCPServer", "MCPServerEntry", "VirtualMCPScriptedToolDefinition"

// isReady reports whether objects, each KIND/NAME, are ready.
func isReady(api *clustertest.API, names ...string) bool {
	for _, name := range names {
		kind, name, _ := strings.Cut(name, "/")
		if condition(api, kind, name, "Ready") != "True Served" {
			return false
		}
	}
	return true
}

// versionsOf are the resourceVersions of the objects of the servers, tools and entries.
func versionsOf(api *clustertest.API) string {
	var all []string
	for _, kind := range []string{aServer, anEntry, aTool} {
		for _, o := range api.Objects(kind) {
			meta := o["metadata"].(map[string]any)
			all = append(all, fmt.Sprintf("%v %v", meta["name"], meta["resourceVersion"]))
		}
	}
	return strings.Join(all, ", ")
}

// rest checks that no object changes for a while.
func rest(t *testing.T, api *clustertest.API) {
	t.Helper()
	before := versionsOf(api)
	time.Sleep(300 * time.Millisecond) // nothing may happen
	if after := versionsOf(api); after != before {
		t.Errorf("objects change by themselves: %s, then %s", before, after)
	}
}

// TestServersOfTheirOwn: of two processes with --server each writes the status of its server, and of the tools and entries
// that it uses; neither reports what the other one uses as unused.
func TestServersOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		api := clustertest.New(t)
		api.Apply(strings.Join([]string{serverWith("a", "ga", "ta"), serverWith("b", "gb", "tb"), scriptedTool("ta", goodScript), scriptedTool("tb", goodScript),
			scriptedTool("idle", goodScript), entryIn("ea", "ga"), entryIn("eb", "gb")}, "---\n"))
		first := startOnly(t, api, "process of "+order[0], order[0])
		until(t, api, first, "the first is ready, and reports nothing of the second", func() bool {
			return isReady(api, aServer+"/"+order[0], aTool+"/t"+order[0], anEntry+"/e"+order[0])
		})
		for _, kind := range []string{aServer, aTool, anEntry} {
			name := map[string]string{aServer: "", aTool: "t", anEntry: "e"}[kind] + order[1]
			if got := condition(api, kind, name, "Ready"); got != "" {
				t.Errorf("%s %s of another process is %s", kind, name, got)
			}
		}
		second := startOnly(t, api, "process of "+order[1], order[1])
		until(t, api, second, "all is ready", func() bool {
			return condition(api, aTool, "idle", "Ready") != "" && isReady(api, aServer+"/a", aServer+"/b", aTool+"/ta", aTool+"/tb", anEntry+"/ea", anEntry+"/eb")
		})
		if got := condition(api, aTool, "idle", "Ready"); got != "False NotReferenced" {
			t.Errorf("a tool that no server uses is %s", got)
		}
		for _, name := range []string{"a", "b"} {
			spec, _ := api.Object("Lease", "vmcp-status-"+name)["spec"].(map[string]any)
			if got := generation(api, aServer, name, "lease"); got != "vmcp-status-"+name || spec["holderIdentity"] != "process of "+name {
				t.Errorf("the lease of server %s is %v, held by %v", name, got, spec["holderIdentity"])
			}
		}
		rest(t, api)
		before := fmt.Sprint(api.Object(aServer, order[1])["status"])
		first.stop()
		third := startOnly(t, api, "again", order[0])
		until(t, api, third, "the other process is there again", func() bool { return third.servers.now(order[0]) != nil })
		rest(t, api)
		if after := fmt.Sprint(api.Object(aServer, order[1])["status"]); after != before {
			t.Errorf("the restart of another process changed a status from %s to %s", before, after)
		}
		third.stop()
		second.stop()
	}
}

// TestSharedByProcesses: a tool and an entry of two servers have a status in each, and their conditions are the worst.
func TestSharedByProcesses(t *testing.T) {
	t.Parallel()
	api := clustertest.New(t)
	api.Apply(strings.Join([]string{serverWith("a", "g", "one"), serverWith("b", "g", "one"), scriptedTool("one", goodScript), entryIn("e", "g")}, "---\n"))
	a, b := startOnly(t, api, "1", "a"), startOnly(t, api, "2", "b")
	both := func(is string) func() bool {
		return func() bool {
			return inServers(api, aTool, "one") == is && inServers(api, anEntry, "e") == "a: True Served 1, b: True Served 1"
		}
	}
	until(t, api, a, "ready in both", both("a: True Served 1, b: True Served 1"))
	until(t, api, a, "the objects are ready", func() bool { return isReady(api, aTool+"/one", anEntry+"/e", aServer+"/a", aServer+"/b") })
	rest(t, api)

	// A new generation: ready when both serve it.
	api.Apply(scriptedTool("one", "def run(params):\n    return 2\n"))
	until(t, api, a, "the new one is served by both", both("a: True Served 2, b: True Served 2"))
	until(t, api, a, "and it is ready", func() bool {
		return isReady(api, aTool+"/one") && generation(api, aTool, "one", "appliedGeneration") == 2.0
	})

	// b ends: what it reported stays, and is not counted as the new generation.
	api.Apply(strings.Replace(serverWith("b", "g", "one"), "config: {", "config: {limits: {calls: 7}, ", 1))
	until(t, api, b, "b takes the change", func() bool { return generation(api, aServer, "b", "appliedGeneration") == 2.0 })
	b.stop()
	api.Apply(scriptedTool("one", "def run(params):\n    return 3\n"))
	until(t, api, a, "a serves what b, which has ended, does not", both("a: True Served 3, b: True Served 2"))
	if got := condition(api, aTool, "one", "Ready"); got != "Unknown LastGoodServed" {
		t.Errorf("the tool is %s: %s", got, message(api, aTool, "one", "Ready"))
	}
	b = startOnly(t, api, "3", "b")
	until(t, api, b, "both again", both("a: True Served 3, b: True Served 3"))
	until(t, api, b, "and it is ready", func() bool { return isReady(api, aTool+"/one") })

	// b no longer uses the tool, then a does not.
	api.Apply(serverWith("b", "other"))
	until(t, api, b, "only a uses it", func() bool {
		return inServers(api, aTool, "one") == "a: True Served 3" && inServers(api, anEntry, "e") == "a: True Served 1" && isReady(api, aTool+"/one", anEntry+"/e")
	})
	api.Apply(serverWith("a", "other"))
	until(t, api, a, "nobody uses it", func() bool {
		return inServers(api, aTool, "one") == "" && condition(api, aTool, "one", "Ready") == "False NotReferenced" && condition(api, anEntry, "e", "Ready") == "False NotReferenced" &&
			generation(api, aServer, "a", "appliedGeneration") == 2.0 && generation(api, aServer, "b", "appliedGeneration") == 3.0
	})
	if got := generation(api, aTool, "one", "appliedGeneration"); got != nil && got != 0.0 {
		t.Errorf("appliedGeneration %v of a tool that is not served", got)
	}
	rest(t, api)
}

// TestBrokenInOneServer: the tool of a process that cannot serve it is not ready, whichever process wrote last.
func TestBrokenInOneServer(t *testing.T) {
	t.Parallel()
	api := clustertest.New(t)
	loads := "load(\"lib.star\", \"f\")\ndef run(params):\n    return f()\n"
	library := func(text string) string {
		return strings.Replace(serverWith("b", "g", "one"), "config: {", "config: {libraries: [{name: lib.star, source: \""+text+"\"}], ", 1)
	}
	api.Apply(strings.Join([]string{strings.Replace(serverWith("a", "g", "one"), "config: {", "config: {libraries: [{name: lib.star, source: \"def f(): return 1\"}], ", 1),
		library("def f(): return nothing"), scriptedTool("one", loads)}, "---\n"))
	a, b := startOnly(t, api, "1", "a"), startOnly(t, api, "2", "b")
	until(t, api, a, "served by a only", func() bool {
		return isReady(api, aServer+"/a", aServer+"/b") && inServers(api, aTool, "one") == "a: True Served 1, b: False NotServed <nil>" && condition(api, aTool, "one", "Ready") == "False NotServed" && condition(api, aTool, "one", "ScriptsValid") == "False CompileFailed"
	})
	rest(t, api)
	if got := generation(api, aTool, "one", "appliedGeneration"); got != nil && got != 0.0 {
		t.Errorf("appliedGeneration %v of a tool that one server does not serve", got)
	}
	if got := condition(api, aServer, "a", "ScriptsValid"); got != "True Compiled" {
		t.Errorf("scripts of a: %s", got)
	}
	api.Apply(library("def f(): return 1"))
	until(t, api, b, "served by both", func() bool {
		return isReady(api, aTool+"/one") && generation(api, aTool, "one", "appliedGeneration") == 1.0
	})
}

// TestDeletedServer: the status in a server that is deleted while its process is not there is removed by another process.
func TestDeletedServer(t *testing.T) {
	t.Parallel()
	api := clustertest.New(t)
	api.Apply(strings.Join([]string{serverWith("a", "g", "one"), serverWith("b", "g", "one"), scriptedTool("one", goodScript)}, "---\n"))
	a, b := startOnly(t, api, "1", "a"), startOnly(t, api, "2", "b")
	until(t, api, a, "ready in both", func() bool {
		return inServers(api, aTool, "one") == "a: True Served 1, b: True Served 1" && isReady(api, aTool+"/one", aServer+"/a", aServer+"/b")
	})
	b.stop()
	rest(t, api)
	api.Delete(aServer, "b")
	until(t, api, a, "only a is left", func() bool { return inServers(api, aTool, "one") == "a: True Served 1" && isReady(api, aTool+"/one") })
}

// TestBesideAllServers: a process without --server leaves the status of a server that has a process of its own to that
// one, and writes it when that one has ended.
func TestBesideAllServers(t *testing.T) {
	t.Parallel()
	api := clustertest.New(t)
	api.Apply(strings.Join([]string{serverWith("a", "g", "one"), serverWith("b", "g", "one"), scriptedTool("one", goodScript)}, "---\n"))
	all := start(t, api, "all")
	until(t, api, all, "it writes both", func() bool {
		return isReady(api, aServer+"/a", aServer+"/b", aTool+"/one") && generation(api, aServer, "a", "lease") == "vmcp-status"
	})
	a := startOnly(t, api, "1", "a")
	until(t, api, a, "the process of a writes a", func() bool { return generation(api, aServer, "a", "lease") == "vmcp-status-a" })
	rest(t, api)
	api.Apply(serverWith("a", "g"))
	until(t, api, a, "both report the change", func() bool {
		return inServers(api, aTool, "one") == "b: True Served 1" && generation(api, aServer, "a", "appliedGeneration") == 2.0 && all.servers.now("a") != nil
	})
	rest(t, api)
	if got := generation(api, aServer, "a", "lease"); got != "vmcp-status-a" {
		t.Errorf("the status of a is written by the holder of %v", got)
	}
	a.stop() // releases its lease
	until(t, api, all, "the other one takes over", func() bool { return generation(api, aServer, "a", "lease") == "vmcp-status" })
	rest(t, api)
}

// TestOverwrittenStatus: a status that something else changes again and again is not written again each time.
func TestOverwrittenStatus(t *testing.T) {
	t.Parallel()
	api := clustertest.New(t)
	api.Apply(ops + "---\n" + triage(goodScript))
	r := start(t, api, "a")
	until(t, api, r, "ready", func() bool { return isReady(api, aServer+"/ops") })
	for i := range 20 {
		o := api.Object(aServer, "ops")
		o["status"].(map[string]any)["path"] = fmt.Sprintf("/%d", i)
		api.Put(o)
		time.Sleep(20 * time.Millisecond) // the other writer's pace
	}
	if n := r.Stats().Writes["ok"]; n > 6 { // those of the server and the tool, and four
		t.Errorf("%d writes against another writer", n)
	}
}

// TestLeaseForbidden: a Role without the lease is reported.
func TestLeaseForbidden(t *testing.T) {
	t.Parallel()
	api := clustertest.New(t)
	api.Refuse("leases", http.StatusForbidden)
	api.Apply(ops + "---\n" + triage(goodScript))
	r := startOnly(t, api, "a", "ops")
	until(t, api, r, "it is logged", func() bool {
		return strings.Contains(r.log.String(), "lacks get and update of the lease\" namespace=team lease=vmcp-status-ops")
	})
}

func TestLeaseNames(t *testing.T) {
	long := strings.Repeat("a", 51)
	for _, tt := range []struct{ server, want string }{
		{"", "vmcp-status"},
		{"ops", "vmcp-status-ops"},
		{long, "vmcp-status-" + long},
		{long + "a", "vmcp-status-" + long[:42] + "-6c1b3dc7"},
		{"team.ops", "vmcp-status-team-ops-fd71a3f2"},
		{strings.Repeat("a.", 126) + "b", "vmcp-status-" + strings.Repeat("a-", 20) + "a-9182ce02"},
	} {
		got := cluster.LeaseOf(tt.server)
		if got != tt.want || len(got) > 63 || !regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`).MatchString(got) {
			t.Errorf("LeaseOf(%q) = %q, want %q", tt.server, got, tt.want)
		}
	}
}
