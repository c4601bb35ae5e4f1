package object_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config/kube/object"
)

// asJSON makes the JSON of an object with a spec, as an API server returns it.
func asJSON(kind object.Kind, spec string) []byte {
	return []byte(`{"apiVersion":"vmcp.dev/v1alpha1","kind":"` + kind.Name + `","metadata":{"name":"a","namespace":"n","uid":"u",
		"generation":3,"resourceVersion":"7","creationTimestamp":"2026-01-02T03:04:05Z","annotations":{"x":"y"},"managedFields":[{}]},
		"spec":` + spec + `,"status":{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True","other":1}]}}`)
}

func TestDecodeObjects(t *testing.T) {
	o, err := object.Decode[object.ServerSpec](asJSON(object.Server, `{"groupRef":{"name":"ops"},"incomingAuth":{"type":"anonymous"},
		"config":{"name":"${HOME}","limits":{"memory":"128MB"},"scriptedToolRefs":[{"name":"triage"}],
		"libraries":[{"name":"t.star","sourceFrom":{"configMapKeyRef":{"name":"m","key":"k"}}}],
		"scriptedTools":[{"name":"t","description":"del \u007f, nel \u0085, \ud83d\ude00","script":"x"}]}}`))
	if err != nil || len(o.Problems) > 0 {
		t.Fatalf("Decode: %v, %v", err, o.Problems)
	}
	c := o.Spec.Config
	if o.Name != "a" || o.Generation != 3 || o.CreationTimestamp.Year() != 2026 || o.Status.Condition(object.Ready).Status != object.True || o.Status.ObservedGeneration != 2 {
		t.Errorf("metadata and status: %+v, %+v", o.Meta, o.Status)
	}
	if c.Name != "${HOME}" || c.Limits.Memory != 128<<20 || c.ScriptedToolRefs[0].Name != "triage" || c.Libraries[0].SourceFrom.ConfigMapKeyRef.Key != "k" {
		t.Errorf("config: %+v", c)
	}
	if got := c.ScriptedTools[0].Description; got != "del \x7f, nel \u0085, 😀" {
		t.Errorf("text: %q", got)
	}
	if !o.Has("spec.config.limits.memory") || o.Has("spec.from") {
		t.Error("Has does not tell what is there")
	}
	if got := o.Ref().String(); got != "VirtualMCPServer a" {
		t.Errorf("Ref: %s", got)
	}
}

// TestCharactersOfJSON: characters that a JSON encoder does not escape and that YAML would refuse.
func TestCharactersOfJSON(t *testing.T) {
	want := "a\x7fb\u0080c\ufeffd\uffffe\u2028f\tg"
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	o, err := object.Decode[object.ScriptedSpec](asJSON(object.Scripted, `{"name":"t","description":`+string(text)+`,"script":"x"}`))
	if err != nil || o.Spec.Description != want {
		t.Errorf("Decode: %v, description %q, want %q", err, o.Spec.Description, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, tt := range []struct{ name, json, want string }{
		{"nothing", ``, "EOF"},
		{"no metadata", `{"kind":"x"}`, "has no metadata"},
		{"no name", `{"metadata":{}}`, "metadata has no name"},
		{"no object", `[]`, "has no metadata"},
		{"too deep", strings.Repeat("[", 1e6), "nested deeper than 100 levels"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := object.Decode[object.EntrySpec]([]byte(tt.json)); err == nil || err.Error() != tt.want {
				t.Errorf("Decode(%s) = %v, want %s", tt.json, err, tt.want)
			}
		})
	}
}

func TestSpecsAreReadStrictly(t *testing.T) {
	server := func(config string) string {
		return `{"groupRef":{"name":"g"},"incomingAuth":{"type":"anonymous"},"config":` + config + `}`
	}
	for _, tt := range []struct {
		name, want string
		decode     func() (object.Problems, error)
	}{
		{"unknown", `error: spec.config.agregation: unknown field; did you mean "aggregation"? [config]`, decode[object.ServerSpec](server(`{"agregation":{}}`))},
		{"of the process", `error: spec.config.listen: unknown field: an object cannot set it: it belongs to the process [config]`, decode[object.ServerSpec](server(`{"listen":":1"}`))},
		{"backends", `error: spec.config.backends: unknown field: an object cannot set it; an object of kind MCPServerEntry with the same groupRef is a backend [config]`, decode[object.ServerSpec](server(`{"backends":[]}`))},
		{"a file", `error: spec.scriptFile: unknown field: an object cannot set it; scriptFrom names a ConfigMap [config]`, decode[object.ScriptedSpec](`{"name":"t","description":"d","scriptFile":"/etc/passwd"}`)},
		{"a folder", `error: spec.config.libraries[0].path: unknown field: an object cannot set it; sourceFrom names a ConfigMap [config]`, decode[object.ServerSpec](server(`{"libraries":[{"path":"/"}]}`))},
		{"a variable", `error: spec.config.outgoingAuth.default.headerInjection.headerValueEnv: unknown field: an object cannot set it; valueSecretRef names a Secret [config]`, decode[object.ServerSpec](server(`{"outgoingAuth":{"default":{"headerInjection":{"headerValueEnv":"HOME"}}}}`))},
		{"a limit of all", `error: spec.config.limits.totalMemory: unknown field: an object cannot set it: it belongs to the process [config]`, decode[object.ServerSpec](server(`{"limits":{"totalMemory":"1GB"}}`))},
		{"a limit of nobody", `error: spec.limits.depth: unknown field;`, decode[object.ScriptedSpec](`{"name":"t","description":"d","script":"x","limits":{"depth":1}}`)},
		{"a command", `error: spec.command: unknown field;`, decode[object.EntrySpec](`{"groupRef":{"name":"g"},"remoteUrl":"http://a/","transport":"sse","command":"sh"}`)},
		{"no spec", `error: spec: missing; a MCPServerEntry needs one [config]`, decode[object.EntrySpec](`null`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			problems, err := tt.decode()
			if err != nil || !strings.Contains(problems.Error(), tt.want) {
				t.Errorf("got  %v %v\nwant %s", problems, err, tt.want)
			}
		})
	}
}

func decode[S object.Spec](spec string) func() (object.Problems, error) {
	return func() (object.Problems, error) {
		o, err := object.Decode[S](asJSON(object.KindOf[S](), spec))
		if err != nil {
			return nil, err
		}
		return o.Problems, nil
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	s, err := object.DecodeSecret([]byte(`{"metadata":{"name":"s"},"data":{"k":"aHVudGVyMg=="},"stringData":{"p":"hunter3"}}`))
	if err != nil || s.Data["k"].Reveal() != "hunter2" || s.Data["p"].Reveal() != "hunter3" {
		t.Fatalf("DecodeSecret: %v, %v", s, err)
	}
	asJSON, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprintf("%v %+v %#v %s", s, s, s, s.Data), string(asJSON)} {
		if strings.Contains(shown, "hunter") {
			t.Errorf("shows a secret: %s", shown)
		}
	}
	for _, bad := range []string{`{"metadata":{"name":"s"},"data":{"k":"hunter2!"}}`, `{"data":{"k":["hunter2"]}}`, `{"data":"hunter2"`} {
		if _, err := object.DecodeSecret([]byte(bad)); err == nil || strings.Contains(err.Error(), "hunter") {
			t.Errorf("DecodeSecret(%s): %v", bad, err)
		}
	}
}

func TestOlder(t *testing.T) {
	early, late := object.Meta{Name: "b"}, object.Meta{Name: "a"}
	if early.Older(&late) || !late.Older(&early) {
		t.Error("of the same time, the name decides")
	}
	late.CreationTimestamp = late.CreationTimestamp.Add(1e9)
	if !early.Older(&late) || late.Older(&early) {
		t.Error("the earlier one is older")
	}
}
