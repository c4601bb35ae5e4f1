package toolhive_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
	"github.com/vmcp-dev/vmcp/config/kube/toolhive"
)

var update = flag.Bool("update", false, "rewrite the expected results")

// readSet reads manifests of ToolHive.
func readSet(t *testing.T, data []byte) (toolhive.Set, []string) {
	t.Helper()
	set, servers := toolhive.Set{}, []string(nil)
	for _, document := range bytes.Split(data, []byte("\n---\n")) {
		asJSON, err := yaml.YAMLToJSON(document)
		if err != nil {
			t.Fatal(err)
		}
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := json.Unmarshal(asJSON, &o); err != nil {
			t.Fatal(err)
		}
		set.Put(o.Kind, o.Metadata.Name, asJSON)
		if o.Kind == "VirtualMCPServer" {
			servers = append(servers, o.Metadata.Name)
		}
	}
	return set, servers
}

// golden compares a result with a file, or writes the file with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// TestTranslate: servers like those in ToolHive's examples, with other names, and further fields of its objects. The
// expected result is complete: our spec, the backends, the unsupported fields and the reasons.
func TestTranslate(t *testing.T) {
	files, err := filepath.Glob("testdata/servers/*.yaml")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	count := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			set, servers := readSet(t, data)
			before := fmt.Sprint(set)
			var got strings.Builder
			for _, server := range servers {
				count++
				describe(t, &got, server, toolhive.Translate(set, server))
			}
			for name, issuer := range toolhive.Issuers(set) {
				fmt.Fprintf(&got, "issuer %s: %s, client %s, secret %v, certificates %v, problem %v\n", name, issuer.Config.Issuer, issuer.Config.ClientID, issuer.ClientSecret, issuer.CABundle, issuer.Problem)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".want", got.String())
			if fmt.Sprint(set) != before {
				t.Error("their objects were changed")
			}
		})
	}
	if count < 15 {
		t.Errorf("%d servers, want at least 15", count)
	}
}

// describe formats a translation as text.
func describe(t *testing.T, w *strings.Builder, name string, tr *resolve.Translation) {
	t.Helper()
	spec, err := yaml.Marshal(plain(t, tr.Spec))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(w, "server %s\n%s", name, indent(string(spec)))
	for _, b := range tr.Backends {
		fmt.Fprintf(w, "  backend %s of %s: %s %s", b.Name, b.Object, b.Spec.Transport, b.Spec.RemoteURL)
		if b.Problem.Reason != "" {
			fmt.Fprintf(w, " left out: %s: %s", b.Problem.Reason, b.Problem.Message)
		}
		fmt.Fprintln(w)
	}
	names := []string{}
	for name := range tr.Composites {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "  composite tool %s: %s\n", name, tr.Composites[name].Spec.Name)
	}
	for _, path := range tr.Ignored {
		fmt.Fprintf(w, "  not carried: %s\n", path)
	}
	if tr.Problem.Reason != "" {
		fmt.Fprintf(w, "  not served: %s: %s\n", tr.Problem.Reason, tr.Problem.Message)
	}
}

// plain is a value without empty members.
func plain(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	return prune(tree)
}

func prune(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for name, e := range m {
		e = prune(e)
		m[name] = e
		inner, isMap := e.(map[string]any)
		if e == nil || e == "" || e == false || e == float64(0) || e == "0s" || e == "0B" || e == "0" || isMap && len(inner) == 0 {
			delete(m, name)
		}
	}
	return m
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ") + "\n"
}

func TestAbsent(t *testing.T) {
	if got := toolhive.Translate(toolhive.Set{}, "nobody"); got != nil {
		t.Errorf("Translate of nothing: %v", got)
	}
	set := toolhive.Set{}
	set.Put("VirtualMCPServer", "broken", json.RawMessage(`{"metadata":{"name":"broken"},"spec":[]}`))
	if got := toolhive.Translate(set, "broken"); got != nil {
		t.Errorf("Translate of no object: %v", got)
	}
}

// TestIssuersThatCannotBeCarried: an issuer with unsupported fields is refused: without them more tokens would be accepted.
func TestIssuersThatCannotBeCarried(t *testing.T) {
	for _, tt := range []struct{ name, spec, want string }{
		{"of ServiceAccounts", `{"type":"kubernetesServiceAccount"}`, `spec.type "kubernetesServiceAccount" is not carried, only inline is`},
		{"a file", `{"type":"inline","inline":{"issuer":"https://a","jwksAuthTokenPath":"/x"}}`, "spec.inline.jwksAuthTokenPath is not carried"},
		{"a field of later", `{"type":"inline","inline":{"issuer":"https://a","requiredClaims":["x"]}}`, "spec.inline.requiredClaims is not carried"},
		{"no issuer", `{"type":"inline","inline":{}}`, "spec.inline has no issuer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := toolhive.Set{}
			set.Put("MCPOIDCConfig", "c", json.RawMessage(`{"metadata":{"name":"c"},"spec":`+tt.spec+`}`))
			got := toolhive.Issuers(set)["c"].Problem
			if got.Reason != object.ReasonAuthNotCarried || got.Message != "MCPOIDCConfig c: "+tt.want {
				t.Errorf("problem %v, want %s", got, tt.want)
			}
		})
	}
}

// TestConvert: the same servers as manifests of ours, with the notes of standard error.
func TestConvert(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := toolhive.Convert([]toolhive.File{{Name: filepath.Base(file), Data: data}})
			var got strings.Builder
			for _, n := range c.Notes {
				fmt.Fprintf(&got, "# %s\n", n)
			}
			for _, n := range c.Lost {
				fmt.Fprintf(&got, "# lost: %s\n", n)
			}
			if len(c.Lost) > 0 && len(c.Manifests) > 0 {
				t.Error("there are manifests although something is lost")
			}
			got.Write(c.Manifests)
			golden(t, strings.TrimSuffix(file, ".yaml")+".ours", got.String())
			if _, problems := readOurs(t, c.Manifests); len(problems) > 0 {
				t.Errorf("our manifests are wrong: %v", problems)
			}
		})
	}
}

// readOurs reads manifests of ours strictly.
func readOurs(t *testing.T, data []byte) (kinds []string, problems object.Problems) {
	t.Helper()
	for _, document := range bytes.Split(data, []byte("---\n")) {
		asJSON, err := yaml.YAMLToJSON(document)
		if err != nil {
			t.Fatal(err)
		}
		var o struct{ Kind string }
		if err := json.Unmarshal(asJSON, &o); err != nil || o.Kind == "" {
			continue
		}
		kinds = append(kinds, o.Kind)
		switch o.Kind {
		case object.Server.Name:
			problems = append(problems, decodeProblems[object.ServerSpec](t, asJSON)...)
		case object.Entry.Name:
			problems = append(problems, decodeProblems[object.EntrySpec](t, asJSON)...)
		case object.Composite.Name:
			problems = append(problems, decodeProblems[object.CompositeSpec](t, asJSON)...)
		default:
			t.Errorf("a manifest of kind %s", o.Kind)
		}
	}
	return kinds, problems
}

func decodeProblems[S object.Spec](t *testing.T, data []byte) object.Problems {
	t.Helper()
	o, err := object.Decode[S](data)
	if err != nil {
		t.Fatal(err)
	}
	return o.Problems
}
