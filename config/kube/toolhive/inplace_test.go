package toolhive_test

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
	"github.com/vmcp-dev/vmcp/config/kube/toolhive"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/proxy"
)

// resolved is the configurations served for a namespace and the status of its servers, by name.
func resolved(t *testing.T, state *resolve.State) (map[string]*config.Config, map[string]object.Status) {
	t.Helper()
	r := resolve.New(resolve.Options{Check: proxy.CheckTools, AllowAnonymous: true})
	configs := map[string]*config.Config{}
	for name, s := range r.Resolve(state) {
		if s.Config != nil {
			configs[name] = s.Config
			r.Applied(s)
		}
	}
	statuses := map[string]object.Status{}
	for _, report := range r.Reports(func(string) map[string]string { return nil }) {
		if report.Object.Kind == object.Server {
			statuses[report.Object.Name] = report.Status
		}
	}
	return configs, statuses
}

// shape formats the part of a configuration that must be equal for both ways of migration.
func shape(c *config.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name %s, incoming %s %s, policies %q\n", c.Name, c.IncomingAuth.Type, c.IncomingAuth.OIDC.Issuer, c.IncomingAuth.Authz.Policies)
	backends := slices.Clone(c.Backends)
	slices.SortFunc(backends, func(a, b config.Backend) int { return strings.Compare(a.Name, b.Name) })
	for _, of := range backends {
		fmt.Fprintf(&b, "backend %s %s %s\n", of.Name, of.Transport, of.URL)
	}
	fmt.Fprintf(&b, "aggregation %+v\ntimeouts %+v\nfailures %v %v\n", c.Aggregation, c.Operational.Timeouts, c.Operational.FailureHandling.HealthCheckInterval, c.Operational.FailureHandling.UnhealthyThreshold)
	for _, tool := range c.CompositeTools {
		fmt.Fprintf(&b, "composite tool %s\n", tool.Name)
	}
	return b.String()
}

// names are the servers of ToolHive's examples in the files, and whether each can be served.
var examples = map[string]bool{
	"all-tools": true, "by-prefix": true, "by-order": true, "by-hand": true, "pages": true, "reports": true, "rollouts": true, "watched": true,
	"guarded": false, "shared-login": true, "live": true, "found": true, "found-tuned": true, "scripts": true, "measured": true,
	"shown": true, "listed": true,
}

// TestInPlace: an object of ours that refers to one of ToolHive's serves it, or its status says why not; the output of
// convert for the same manifests serves the same.
func TestInPlace(t *testing.T) {
	files, err := filepath.Glob("testdata/servers/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		set, servers := readSet(t, data)
		configs, statuses := resolved(t, inPlaceState(t, set, servers))
		converted := toolhive.Convert([]toolhive.File{{Name: file, Data: data}})
		others, _ := resolved(t, convertedState(t, set, converted.Manifests))
		for _, server := range servers {
			served, ok := examples[server]
			if !ok {
				continue // not one of the examples
			}
			seen[server] = true
			t.Run(server, func(t *testing.T) {
				status := statuses[server]
				accepted, translated := status.Condition(object.Accepted), status.Condition(object.Translated)
				if c := configs[server]; (c != nil) != served {
					t.Fatalf("served: %v, want %v; Accepted is %+v", c != nil, served, accepted)
				}
				if !served {
					if accepted.Reason != object.ReasonAuthNotCarried || others[server] != nil {
						t.Errorf("Accepted is %+v; converted it is served: %v", accepted, others[server] != nil)
					}
					return
				}
				tr := toolhive.Translate(set, server)
				if complete := translated.Status == object.True; complete != (len(tr.Ignored) == 0) {
					t.Errorf("Translated is %+v, left out is %q", translated, tr.Ignored)
				}
				for _, path := range tr.Ignored {
					if !strings.Contains(translated.Message, path) {
						t.Errorf("Translated does not name %s: %s", path, translated.Message)
					}
				}
				if others[server] == nil {
					t.Fatal("converted it is not served")
				}
				if diff := cmp.Diff(shape(configs[server]), shape(others[server])); diff != "" {
					t.Errorf("in place and converted differ (-in place +converted):\n%s", diff)
				}
			})
		}
	}
	if len(seen) != len(examples) {
		t.Errorf("%d servers, want %d", len(seen), len(examples))
	}
}

// inPlaceState is a namespace with ToolHive's objects, and for each of its servers one of ours that refers to it.
func inPlaceState(t *testing.T, set toolhive.Set, servers []string) *resolve.State {
	t.Helper()
	s := emptyState(t, set)
	for _, name := range servers {
		s.ToolHive[name] = toolhive.Translate(set, name)
		o, err := object.Decode[object.ServerSpec]([]byte(fmt.Sprintf(`{"metadata":{"name":%q,"uid":%[1]q,"generation":1},"spec":{"from":{"toolhive":%[1]q}}}`, name)))
		if err != nil {
			t.Fatal(err)
		}
		s.Servers[name] = o
	}
	return s
}

// convertedState is a namespace with the output of convert, without the one backend of the examples that has no URL in
// the recorded cluster.
func convertedState(t *testing.T, set toolhive.Set, manifests []byte) *resolve.State {
	t.Helper()
	s := emptyState(t, set)
	all, problems := object.Read("ours.yaml", manifests)
	if len(problems) > 0 {
		t.Errorf("convert printed %v:\n%s", problems, manifests)
	}
	for _, m := range all {
		switch o := m.Object.(type) {
		case *object.VirtualMCPServer:
			s.Servers[o.Name] = o
		case *object.MCPServerEntry:
			if strings.Contains(string(set["MCPServer"][o.Name]), `"status"`) || o.Spec.RemoteURL == "" {
				s.Entries[o.Name] = o
			}
		case *object.VirtualMCPCompositeToolDefinition:
			s.Composites[o.Name] = o
		default:
			t.Errorf("convert printed a %s", m.Kind)
		}
	}
	return s
}

// emptyState has the Secrets and ConfigMaps of the examples.
func emptyState(t *testing.T, set toolhive.Set) *resolve.State {
	t.Helper()
	return &resolve.State{
		Servers: map[string]*object.VirtualMCPServer{}, Entries: map[string]*object.MCPServerEntry{},
		Scripted: map[string]*object.VirtualMCPScriptedToolDefinition{}, Composites: map[string]*object.VirtualMCPCompositeToolDefinition{},
		ConfigMaps: map[string]*object.ConfigMap{"ca": {Data: map[string]string{"ca.crt": certificate(t)}}},
		Secrets:    map[string]*object.Secret{"idp": {Data: map[string]secret.Value{"secret": secret.NewValue("hunter2")}}},
		ToolHive:   map[string]*resolve.Translation{}, OIDC: toolhive.Issuers(set),
	}
}

// certificate is a certificate in PEM.
func certificate(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}
