//go:build suites

package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
)

// theirKinds are ToolHive's kinds that vmcp reads.
var theirKinds = map[string]string{
	"VirtualMCPServer": "virtualmcpservers", "VirtualMCPCompositeToolDefinition": "virtualmcpcompositetooldefinitions", "MCPServer": "mcpservers",
	"MCPRemoteProxy": "mcpremoteproxies", "MCPServerEntry": "mcpserverentries", "MCPToolConfig": "mcptoolconfigs", "MCPGroup": "mcpgroups", "MCPOIDCConfig": "mcpoidcconfigs",
}

// withToolHive creates the CRDs of their kinds, with schemas that accept everything, and the Role to read them.
func (c *cluster) withToolHive() {
	c.t.Helper()
	for kind, plural := range theirKinds {
		places[kind] = plural
		c.apply(fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[2]s.toolhive.stacklok.dev"},"spec":{"group":"toolhive.stacklok.dev",
			"scope":"Namespaced","names":{"kind":%[1]q,"plural":%[2]q,"singular":%[3]q,"listKind":"%[1]sList"},"versions":[{"name":"v1beta1","served":true,"storage":true,"subresources":{"status":{}},
			"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, kind, plural, strings.ToLower(kind)))
	}
	for _, plural := range theirKinds {
		c.await(plural, func() bool {
			status, _ := c.do("GET", theirs(plural), nil)
			return status == http.StatusOK
		})
	}
	c.applyFiles("../../deploy/toolhive/role.yaml", "../../deploy/toolhive/rolebinding.yaml")
}

// theirs is the path of ToolHive's objects of a kind.
func theirs(plural string) string {
	return "/apis/toolhive.stacklok.dev/v1beta1/namespaces/team/" + plural
}

// applyTheirs applies ToolHive's manifests in the namespace team, and writes their status in place of ToolHive's operator,
// with the URL of a backend.
func (c *cluster) applyTheirs(file, url string) {
	c.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	manifests := strings.ReplaceAll(string(text), "namespace: tools", "namespace: team")
	c.apply(manifests)
	for _, document := range strings.Split(manifests, "\n---\n") {
		_, rest, ok := strings.Cut(document, "\nkind: MCPServer\nmetadata: {name: ")
		if !ok || !strings.Contains(document, "\nstatus:") {
			continue
		}
		name, _, _ := strings.Cut(rest, ",")
		status := fmt.Sprintf(`{"status":{"phase":"Ready","url":%q}}`, url+"#"+name)
		if code, body := c.do("PATCH", theirs("mcpservers")+"/"+name+"/status", []byte(status), "application/merge-patch+json"); code != http.StatusOK {
			c.t.Fatalf("status of %s: %d %s", name, code, body)
		}
	}
}

// theirVersions are the resource versions of all of ToolHive's objects.
func (c *cluster) theirVersions() map[string]string {
	c.t.Helper()
	found := map[string]string{}
	for kind, plural := range theirKinds {
		var list struct {
			Items []struct {
				Metadata struct{ Name, ResourceVersion string }
			}
		}
		status, body := c.do("GET", theirs(plural), nil)
		if err := json.Unmarshal(body, &list); err != nil || status != http.StatusOK {
			c.t.Fatalf("list %s: %d %s", plural, status, body)
		}
		for _, o := range list.Items {
			found[kind+" "+o.Metadata.Name] = o.Metadata.ResourceVersion
		}
	}
	return found
}

// from is a server of vmcp that refers to one of ToolHive.
func from(name string) string {
	return fmt.Sprintf("apiVersion: vmcp.dev/v1alpha1\nkind: VirtualMCPServer\nmetadata: {name: our-%[1]s}\nspec: {from: {toolhive: %[1]s}}\n", name)
}

// TestToolHiveInPlace: ToolHive's objects are served, their changes are applied, and they are never written.
func TestToolHiveInPlace(t *testing.T) {
	c := start(t)
	c.withToolHive()
	raw := &backendtest.Raw{Tools: `{"name":"read","description":"Reads.","inputSchema":{"type":"object"}},{"name":"list","description":"Lists.","inputSchema":{"type":"object"}},{"name":"purge","description":"Purges.","inputSchema":{"type":"object"}}`}
	url := raw.Start(t)
	const data = "../../config/kube/toolhive/testdata/servers/"
	for _, file := range []string{"discovered", "composite", "oidc-inline", "members"} {
		c.applyTheirs(data+file+".yaml", url)
	}
	c.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {header: secret-of-a-header}")
	for _, name := range []string{"all-tools", "pages", "guarded", "mixed", "nobody"} {
		c.apply(from(name))
	}
	before := c.theirVersions()
	r := c.serve()

	c.awaitCondition("VirtualMCPServer", "our-all-tools", "Translated", "True Complete")
	c.awaitCondition("VirtualMCPServer", "our-all-tools", "Ready", "True Served")
	c.awaitTools(r, "our-all-tools", "mail_read", "mail_purge") // the others are of a transport that this backend has not
	c.awaitCondition("VirtualMCPServer", "our-pages", "Ready", "True Served")
	c.awaitTools(r, "our-pages", "fetch_twice", "fetch_read")

	c.awaitCondition("VirtualMCPServer", "our-nobody", "Accepted", "False RefNotFound")
	c.awaitCondition("VirtualMCPServer", "our-guarded", "Accepted", "False AuthNotCarried")
	if status, body := r.list("our-guarded"); status != http.StatusServiceUnavailable {
		t.Errorf("a server whose policy is not carried answers %d %s", status, body)
	}

	c.awaitCondition("VirtualMCPServer", "our-mixed", "Translated", "False FieldsIgnored")
	if _, message := c.condition("VirtualMCPServer", "our-mixed", "Translated"); !strings.Contains(message, "spec.config.flux") || !strings.Contains(message, "MCPServer locked: spec.externalAuthConfigRef") {
		t.Errorf("Translated does not name the omitted fields: %s", message)
	}
	c.awaitTools(r, "our-mixed", "a-b_read_it", "a-b_list")
	if _, body := r.list("our-mixed"); strings.Contains(body, "purge") {
		t.Errorf("a tool that the MCPToolConfig filters is listed: %s", body)
	}
	for object, version := range c.theirVersions() {
		if before[object] != version {
			t.Errorf("%s was written: its resource version changed from %s to %s", object, before[object], version)
		}
	}
	filter := []byte(`{"spec":{"toolsFilter":["read","purge"]}}`)
	if code, body := c.do("PATCH", theirs("mcptoolconfigs")+"/read-only", filter, "application/merge-patch+json"); code != http.StatusOK {
		t.Fatalf("patch: %d %s", code, body)
	}
	c.awaitTools(r, "our-mixed", "a-b_purge")
	if strings.Contains(r.log.String(), "secret-of-a-header") {
		t.Error("the log has a value of a Secret")
	}
}

// list lists the tools of a server, without a session.
func (r *replica) list(server string) (int, string) {
	return r.askAt("/"+server+"/mcp", "tools/list", "")
}

func (c *cluster) awaitTools(r *replica, server string, names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.await(server+" to list "+name, func() bool { _, body := r.list(server); return strings.Contains(body, `"`+name+`"`) })
	}
}
