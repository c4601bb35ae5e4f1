package migration_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/migration"
	"github.com/vmcp-dev/vmcp/config/kube/object"
)

var update = flag.Bool("update", false, "rewrite the expected results")

// refused are specs that the API server refuses, by kind.
const refused = "testdata/refused"

// TestWhatTheAPIServerRefuses: they are also refused without a cluster, in the API server's words.
func TestWhatTheAPIServerRefuses(t *testing.T) {
	count := 0
	for _, kind := range object.Kinds {
		data, err := os.ReadFile(filepath.Join(refused, strings.ToLower(kind.Name)+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var cases []struct {
			Name  string         `json:"name"`
			Spec  map[string]any `json:"spec"`
			Words []string       `json:"words"`
		}
		if err := yaml.UnmarshalStrict(data, &cases); err != nil {
			t.Fatal(err)
		}
		for _, tt := range cases {
			count++
			t.Run(kind.Name+"/"+tt.Name, func(t *testing.T) {
				text, err := yaml.Marshal(map[string]any{"apiVersion": object.APIVersion, "kind": kind.Name, "metadata": map[string]any{"name": "a"}, "spec": tt.Spec})
				if err != nil {
					t.Fatal(err)
				}
				found := migration.Check([]migration.File{{Name: "m.yaml", Text: text}})
				for _, word := range tt.Words {
					if !strings.Contains(strings.ToLower(found.Error()), strings.ToLower(word)) {
						t.Errorf("Check(%s)\n got %v\nwant the word %s", text, found, word)
					}
				}
				for _, p := range found {
					if p.Line == 0 || p.File != "m.yaml" {
						t.Errorf("a problem without a place: %v", p)
					}
				}
			})
		}
	}
	if count < 45 {
		t.Errorf("%d specs, want at least 45", count)
	}
}

func TestCheck(t *testing.T) {
	files, err := filepath.Glob("testdata/manifests/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := migration.Check([]migration.File{{Name: "m.yaml", Text: data}}).Error()
			expected := strings.TrimSuffix(name, ".yaml") + ".want"
			if *update {
				if err := os.WriteFile(expected, []byte(got+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(expected)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSuffix(string(want), "\n"), got); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFilesReferToEachOther: an object may refer to one in another file.
func TestFilesReferToEachOther(t *testing.T) {
	server := migration.File{Name: "server.yaml", Text: []byte("apiVersion: vmcp.dev/v1alpha1\nkind: VirtualMCPServer\nmetadata: {name: ops}\nspec:\n  groupRef: {name: g}\n  incomingAuth: {type: anonymous}\n  config:\n    scriptedToolRefs: [{name: triage}]\n    libraries: [{name: text.star, source: 'x = 1'}]\n")}
	tool := migration.File{Name: "tool.yaml", Text: []byte("apiVersion: vmcp.dev/v1alpha1\nkind: VirtualMCPScriptedToolDefinition\nmetadata: {name: triage}\nspec:\n  name: triage\n  description: d\n  script: |\n    load('text.star', 'x')\n    def run(p):\n        return x\n")}
	if found := migration.Check([]migration.File{server, tool}); len(found) > 0 {
		t.Errorf("both files: %v", found)
	}
	if found := migration.Check([]migration.File{tool}); len(found) > 0 {
		t.Errorf("the tool alone, whose libraries are not known: %v", found)
	}
	const want = "server.yaml:8:24: error: spec.config.scriptedToolRefs[0]: there is no VirtualMCPScriptedToolDefinition triage [config]"
	if found := migration.Check([]migration.File{server}); found.Error() != want {
		t.Errorf("the server alone:\n got %v\nwant %s", found, want)
	}
}

// TestExamples: the manifests of the examples, and of the documentation, have no problems.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../../examples/kubernetes/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := migration.Check([]migration.File{{Name: filepath.Base(name), Text: text}}); len(found) > 0 {
			t.Error(found)
		}
	}
	page, err := os.ReadFile("../../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for i, block := range strings.Split(string(page), "\n```yaml title=") {
		name, text, _ := strings.Cut(block, "\n")
		text, _, _ = strings.Cut(text, "\n```")
		if i == 0 || !strings.Contains(text, "apiVersion: vmcp.dev/") {
			continue
		}
		count++
		if found := migration.Check([]migration.File{{Name: name, Text: []byte(text)}}); len(found) > 0 {
			t.Errorf("docs/kubernetes.md: %v", found)
		}
		if name == "ops.yaml" { // the mistake that the page explains
			wrong := strings.Replace(text, "workload: github", "workload: githb", 1)
			found := migration.Check([]migration.File{{Name: name, Text: []byte(wrong)}}).Error()
			if !strings.Contains(string(page), "\n"+found+"\n") {
				t.Errorf("docs/kubernetes.md shows another text than %s", found)
			}
		}
	}
	if count < 2 {
		t.Errorf("%d blocks of manifests, want at least 2", count)
	}
}

// TestThePageHasEveryReason: the documentation has every reason of a status.
func TestThePageHasEveryReason(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{object.Accepted, object.ScriptsValid, object.BackendsReady, object.Translated, object.Ready,
		object.ReasonAccepted, object.ReasonInvalid, object.ReasonRefNotFound, object.ReasonNameConflict, object.ReasonInvalidSecret,
		object.ReasonAuthNotCarried, object.ReasonNotAllowed, object.ReasonCompiled, object.ReasonCompileFailed, object.ReasonAllReady,
		object.ReasonSomeUnavailable, object.ReasonNoneAvailable, object.ReasonComplete, object.ReasonFieldsIgnored, object.ReasonServed,
		object.ReasonLastGoodServed, object.ReasonNotServed, object.ReasonNotReferenced, object.ReasonUnavailable} {
		if !strings.Contains(string(page), "`"+word+"`") {
			t.Errorf("docs/kubernetes.md does not tell of %s", word)
		}
	}
}
