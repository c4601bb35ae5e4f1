package crds

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// said is what the API server says of a manifest, "" where it takes it.
func said(t *testing.T, of map[string]*Definition, manifest string) string {
	t.Helper()
	object := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &object); err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
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

// good are specs, of which the wrong ones of the table differ in one thing.
var good = map[string]string{
	tool:      `{name: triage, description: d, script: "x = 1"}`,
	composite: `{name: escalate, description: d, steps: [{id: a, tool: t}]}`,
	entry:     `{groupRef: {name: g}, remoteUrl: "https://a.test/mcp", transport: streamable-http}`,
	server:    `{groupRef: {name: g}, incomingAuth: {type: anonymous}}`,
}

// wrong are specs that the API server refuses, and what it has to name.
var wrong = []struct {
	kind, name, spec string
	want             []string
}{
	{tool, "neither source", `{name: t, description: d}`, []string{"exactly one", "script", "scriptFrom"}},
	{tool, "both sources", `{name: t, description: d, script: x, scriptFrom: {configMapKeyRef: {name: m, key: k}}}`, []string{"exactly one", "script", "scriptFrom"}},
	{tool, "no name", `{description: d, script: x}`, []string{"spec.name", "Required"}},
	{tool, "no description", `{name: t, script: x}`, []string{"spec.description", "Required"}},
	{tool, "a name with a blank", `{name: a b, description: d, script: x}`, []string{"spec.name"}},
	{tool, "a name of 65 letters", `{name: ` + strings.Repeat("a", 65) + `, description: d, script: x}`, []string{"spec.name"}},
	{tool, "an empty script", `{name: t, description: d, script: ""}`, []string{"spec.script"}},
	{tool, "parsecs", `{name: t, description: d, script: x, timeout: 5 parsecs}`, []string{"spec.timeout"}},
	{tool, "no time", `{name: t, description: d, script: x, timeout: 0s}`, []string{"spec.timeout", "positive"}},
	{tool, "a typo", `{name: t, description: d, scirpt: x}`, []string{`unknown field "spec.scirpt"`}},
	{tool, "a file", `{name: t, description: d, scriptFile: /etc/passwd}`, []string{`unknown field "spec.scriptFile"`}},
	{tool, "parameters are a list", `{name: t, description: d, script: x, parameters: [a]}`, []string{"spec.parameters", "object"}},
	{tool, "parameters of a list", `{name: t, description: d, script: x, parameters: {type: array}}`, []string{"spec.parameters", "object"}},
	{tool, "no key", `{name: t, description: d, scriptFrom: {configMapKeyRef: {name: m}}}`, []string{"configMapKeyRef.key"}},
	{tool, "negative steps", `{name: t, description: d, script: x, limits: {steps: -5}}`, []string{"limits.steps"}},
	{tool, "lots of memory", `{name: t, description: d, script: x, limits: {memory: lots}}`, []string{"limits.memory"}},
	{tool, "a hint in quotes", `{name: t, description: d, script: x, annotations: {readOnlyHint: "yes"}}`, []string{"readOnlyHint", "boolean"}},

	{composite, "no step", `{name: t, description: d, steps: []}`, []string{"spec.steps"}},
	{composite, "no steps", `{name: t, description: d}`, []string{"spec.steps"}},
	{composite, "a type", `{name: t, description: d, steps: [{id: a, type: foo}]}`, []string{"spec.steps[0].type", `"tool"`, `"elicitation"`}},
	{composite, "an action", `{name: t, description: d, steps: [{id: a, tool: t, onError: {action: explode}}]}`, []string{"onError.action", `"retry"`}},
	{composite, "a field of the guides", `{name: t, description: d, failureMode: abort, steps: [{id: a, tool: t}]}`, []string{`unknown field "spec.failureMode"`}},

	{entry, "another scheme", `{groupRef: {name: g}, remoteUrl: "ftp://a.test/", transport: sse}`, []string{"spec.remoteUrl", "http"}},
	{entry, "no URL", `{groupRef: {name: g}, transport: sse}`, []string{"spec.remoteUrl", "Required"}},
	{entry, "standard input", `{groupRef: {name: g}, remoteUrl: "http://a.test/", transport: stdio}`, []string{"spec.transport", "streamable-http"}},
	{entry, "no group", `{remoteUrl: "http://a.test/", transport: sse}`, []string{"spec.groupRef", "Required"}},
	{entry, "the cloud's metadata", `{groupRef: {name: g}, remoteUrl: "http://169.254.169.254/latest", transport: sse}`, []string{"spec.remoteUrl", "link-local"}},
	{entry, "link-local in version 6", `{groupRef: {name: g}, remoteUrl: "http://[fe80::1]/", transport: sse}`, []string{"spec.remoteUrl", "link-local"}},
	{entry, "a header with a blank", `{groupRef: {name: g}, remoteUrl: "http://a.test/", transport: sse, headerForward: {addHeadersFromSecret: [{headerName: Bad Header, valueSecretRef: {name: s, key: k}}]}}`, []string{"headerName"}},
	{entry, "a secret without key", `{groupRef: {name: g}, remoteUrl: "http://a.test/", transport: sse, headerForward: {addHeadersFromSecret: [{headerName: A, valueSecretRef: {name: s}}]}}`, []string{"valueSecretRef.key"}},
	{entry, "sessions sometimes", `{groupRef: {name: g}, remoteUrl: "http://a.test/", transport: sse, sessions: sometimes}`, []string{"spec.sessions", "shared"}},
	{entry, "a command", `{groupRef: {name: g}, remoteUrl: "http://a.test/", transport: sse, command: [sh]}`, []string{`unknown field "spec.command"`}},

	{server, "neither group nor from", `{incomingAuth: {type: anonymous}}`, []string{"exactly one", "groupRef", "from"}},
	{server, "both group and from", `{groupRef: {name: g}, from: {toolhive: t}, incomingAuth: {type: anonymous}}`, []string{"exactly one", "groupRef", "from"}},
	{server, "nobody says who comes in", `{groupRef: {name: g}}`, []string{"incomingAuth", "anonymous"}},
	{server, "type none", `{groupRef: {name: g}, incomingAuth: {type: none}}`, []string{"incomingAuth.type", "anonymous"}},
	{server, "from nothing", `{from: {toolhive: ""}}`, []string{"spec.from.toolhive"}},
	{server, "a typo", `{groupRef: {name: g}, incomingAuth: {type: anonymous}, config: {agregation: {}}}`, []string{`unknown field "spec.config.agregation"`}},
	{server, "an address", `{groupRef: {name: g}, incomingAuth: {type: anonymous}, config: {listen: ":1"}}`, []string{`unknown field "spec.config.listen"`}},
	{server, "backends", `{groupRef: {name: g}, incomingAuth: {type: anonymous}, config: {backends: []}}`, []string{`unknown field "spec.config.backends"`}},
	{server, "first wins", `{groupRef: {name: g}, incomingAuth: {type: anonymous}, config: {aggregation: {conflictResolution: first}}}`, []string{"conflictResolution", "prefix"}},
	{server, "priority without order", `{groupRef: {name: g}, incomingAuth: {type: anonymous}, config: {aggregation: {conflictResolution: priority}}}`, []string{"priorityOrder"}},
	{server, "a reference twice", `{groupRef: {name: g}, incomingAuth: {type: anonymous}, config: {scriptedToolRefs: [{name: a}, {name: a}]}}`, []string{"scriptedToolRefs[1]", "Duplicate"}},
	{server, "a library with two texts", `{groupRef: {name: g}, incomingAuth: {type: anonymous}, config: {libraries: [{name: a.star, source: x, sourceFrom: {configMapKeyRef: {name: m, key: k}}}]}}`, []string{"exactly one", "sourceFrom"}},
	{server, "a library with a path", `{groupRef: {name: g}, incomingAuth: {type: anonymous}, config: {libraries: [{path: /etc}]}}`, []string{"path"}},
}

// TestWrongObjects: what is refused, in words that name the field. The same specs without the mistake are taken.
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
	for _, tt := range wrong {
		t.Run(tt.kind+"/"+tt.name, func(t *testing.T) {
			got := said(t, of, manifest(tt.kind, tt.spec))
			for _, word := range tt.want {
				if !strings.Contains(got, word) {
					t.Errorf("%s\nis said: %q\nwant a word of %q", tt.spec, got, word)
				}
			}
		})
	}
	if len(wrong) < 40 {
		t.Errorf("%d wrong objects, want at least 40", len(wrong))
	}
}

// TestExamples: every example and every manifest in the documentation is taken, with strict validation.
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

// accepted tries the objects of ours among manifests, and returns how many there are.
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
