package resolve_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
)

func TestFindReferences(t *testing.T) {
	server := decode[object.ServerSpec](t, `{"groupRef":{"name":"g"},
		"incomingAuth":{"type":"anonymous","authzConfig":{"type":"configMap","configMap":{"name":"authz"}}},
		"config":{"libraries":[{"name":"t.star","sourceFrom":{"configMapKeyRef":{"name":"libs","key":"k"}}}],
		"scriptedTools":[{"name":"t","description":"d","scriptFrom":{"configMapKeyRef":{"name":"inline","key":"k"}}}],
		"outgoingAuth":{"default":{"type":"header_injection","headerInjection":{"headerName":"A","valueSecretRef":{"name":"default","key":"k"}}},
			"backends":{"a.b":{"type":"token_exchange","tokenExchange":{"tokenUrl":"https://i/t","clientId":"c","clientSecretRef":{"name":"exchange","key":"k"},"discovery":{"type":"client_credentials","clientCredentials":{"tokenUrl":"https://i/t","clientId":"c","clientSecretRef":{"name":"discovery","key":"k"}}}}}}}}}`)
	entry := decode[object.EntrySpec](t, `{"groupRef":{"name":"g"},"remoteUrl":"https://a/","transport":"sse","caBundleRef":{"configMapRef":{"name":"ca"}},
		"headerForward":{"addHeadersFromSecret":[{"headerName":"A","valueSecretRef":{"name":"header","key":"k"}}]}}`)
	scripted := decode[object.ScriptedSpec](t, `{"name":"t","description":"d","scriptFrom":{"configMapKeyRef":{"name":"scripts","key":"k"}}}`)
	got := resolve.FindReferences(&resolve.State{
		Servers:  map[string]*object.VirtualMCPServer{"a": server},
		Entries:  map[string]*object.MCPServerEntry{"a": entry},
		Scripted: map[string]*object.VirtualMCPScriptedToolDefinition{"a": scripted},
		ToolHive: map[string]*resolve.Translation{"t": {Backends: []resolve.Backend{{Spec: decode[object.EntrySpec](t,
			`{"groupRef":{"name":"g"},"remoteUrl":"http://a/","transport":"sse","headerForward":{"addHeadersFromSecret":[{"headerName":"A","valueSecretRef":{"name":"theirs","key":"k"}}]}}`).Spec}}}},
		OIDC: map[string]*resolve.Issuer{"o": {CABundle: &object.CABundleKey{Name: "issuer-ca"}, ClientSecret: &config.KeyRef{Name: "client", Key: "k"}}},
	})
	want := resolve.References{
		ConfigMaps: []string{"authz", "ca", "inline", "issuer-ca", "libs", "scripts"},
		Secrets:    []string{"client", "default", "discovery", "exchange", "header", "theirs"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("FindReferences (-want +got):\n%s", diff)
	}
}

// decode decodes an object named a with a spec.
func decode[S object.Spec](t *testing.T, spec string) *object.Object[S] {
	t.Helper()
	o, err := object.Decode[S]([]byte(`{"metadata":{"name":"a"},"spec":` + spec + `}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Problems) > 0 {
		t.Fatal(o.Problems)
	}
	return o
}
