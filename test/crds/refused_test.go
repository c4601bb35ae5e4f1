package crds

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// mostBytes bounds a definition: kubectl apply keeps a copy of it in an annotation, which has 256 kB.
const mostBytes = 100_000

// definitions are those of deploy/crds, by kind.
func definitions(t *testing.T) map[string]*Definition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "deploy", "crds", "*.yaml"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%d definitions, %v, want 4", len(files), err)
	}
	all := map[string]*Definition{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > mostBytes {
			t.Errorf("%s has %d bytes, want at most %d", file, len(data), mostBytes)
		}
		d, err := NewDefinition(data)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if d.APIVersion != "vmcp.dev/v1alpha1" || all[d.Kind] != nil {
			t.Errorf("%s: %s %s", file, d.APIVersion, d.Kind)
		}
		all[d.Kind] = d
	}
	return all
}

// said is the API server's error about a manifest, "" where it accepts it.
func said(t *testing.T, of map[string]*Definition, manifest string) string {
	t.Helper()
	text, err := yaml.YAMLToJSONStrict([]byte(manifest))
	if err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
	}
	object := map[string]any{}
	if err := json.Unmarshal(text, &object); err != nil { // whole numbers stay such
		t.Fatal(err)
	}
	kind, _ := object["kind"].(string)
	if of[kind] == nil || object["apiVersion"] != of[kind].APIVersion {
		t.Fatalf("no definition of %v %s", object["apiVersion"], kind)
	}
	return say(of[kind].Validate(object))
}

const (
	tool      = "VirtualMCPScriptedToolDefinition"
	composite = "VirtualMCPCompositeToolDefinition"
	entry     = "MCPServerEntry"
	server    = "VirtualMCPServer"
)

// good are valid specs; the wrong ones of the table differ in one field.
var good = map[string]string{
	tool:      `{name: triage, description: d, script: "x = 1"}`,
	composite: `{name: escalate, description: d, steps: [{id: a, tool: t}]}`,
	entry:     `{groupRef: {name: g}, remoteUrl: "https://a.test/mcp", transport: streamable-http}`,
	server:    `{groupRef: {name: g}, incomingAuth: {type: anonymous}}`,
}

// refused are specs that the API server refuses, by kind, with texts of its errors. vmcp validate has the same errors:
// its tests read the same files.
func refused(t *testing.T, kind string) (cases []struct {
	Name  string         `json:"name"`
	Spec  map[string]any `json:"spec"`
	Words []string       `json:"words"`
}) {
	t.Helper()
	text := read(t, filepath.Join(root, "cmd", "vmcp", "internal", "migration", "testdata", "refused", strings.ToLower(kind)+".yaml"))
	if err := yaml.UnmarshalStrict([]byte(text), &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestWrongObjects: wrong specs are refused with an error that names the field. The same specs without the mistake are accepted.
func TestWrongObjects(t *testing.T) {
	of := definitions(t)
	manifest := func(kind, spec string) string {
		return "apiVersion: vmcp.dev/v1alpha1\nkind: " + kind + "\nmetadata: {name: a}\nspec: " + spec
	}
	for kind, spec := range good {
		if got := said(t, of, manifest(kind, spec)); got != "" {
			t.Errorf("%s %s is refused: %s", kind, spec, got)
		}
	}
	count := 0
	for kind := range good {
		for _, tt := range refused(t, kind) {
			count++
			t.Run(kind+"/"+tt.Name, func(t *testing.T) {
				spec, err := json.Marshal(tt.Spec)
				if err != nil {
					t.Fatal(err)
				}
				got := said(t, of, manifest(kind, string(spec)))
				for _, word := range tt.Words {
					if got == "" || !strings.Contains(strings.ToLower(got), strings.ToLower(word)) {
						t.Errorf("%s\nerror: %q\nwant it to contain %q", spec, got, word)
					}
				}
			})
		}
	}
	if count < 45 {
		t.Errorf("%d wrong objects, want at least 45", count)
	}
}

// TestExamples: every example and every manifest in the documentation is accepted, with strict validation.
func TestExamples(t *testing.T) {
	of := definitions(t)
	files, err := filepath.Glob(filepath.Join(root, "examples", "kubernetes", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		if n := accepted(t, of, file, read(t, file)); n == 0 {
			t.Errorf("%s has no object of ours", file)
		}
	}
	count := 0
	page := filepath.Join(root, "docs", "kubernetes.md")
	for i, block := range strings.Split(read(t, page), "\n```yaml") {
		if i > 0 {
			_, block, _ = strings.Cut(block, "\n") // its title
			block, _, _ = strings.Cut(block, "\n```")
			count += accepted(t, of, page, block)
		}
	}
	if count < 4 {
		t.Errorf("%s has %d objects of ours in its blocks, want at least 4", page, count)
	}
}

// accepted validates vmcp's objects among manifests, and returns their number.
func accepted(t *testing.T, of map[string]*Definition, name, manifests string) (count int) {
	t.Helper()
	for _, document := range strings.Split("\n"+manifests, "\n---") {
		if !strings.Contains(document, "\napiVersion: vmcp.dev/") {
			continue
		}
		count++
		if got := said(t, of, document); got != "" {
			t.Errorf("%s: %s\n%s", name, got, document)
		}
	}
	return count
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")))
}
