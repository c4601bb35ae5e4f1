package lock_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/config/lock"
)

const order = `{"name":"get","description":"Gets an order.","annotations":{"readOnlyHint":true},
 "inputSchema":{"type":"object","properties":{"id":{"type":"string"},"view":{"type":"string","enum":["short","long"]},"n":{"type":["integer","null"]}},"required":["id"]},
 "outputSchema":{"type":"object","properties":{"status":{"type":"string","enum":["new","paid"]},"cents":{"type":"integer"}},"required":["status","cents"],"additionalProperties":false}}`

// TestDifferences changes one part of the definition of a tool.
func TestDifferences(t *testing.T) {
	for _, tt := range []struct{ name, old, now, want string }{
		{"nothing", "Gets", "Gets", ""},
		{"text", "Gets an", "Steals an", `~ shop.get: description changed (text)`},
		{"title of an argument", `{"type":"integer"}`, `{"type":"integer","description":"in cents"}`, `~ shop.get: outputSchema.properties.cents.description is new (text)`},
		{"an argument named description", `"properties":{"id"`, `"properties":{"description":{"type":"string"},"id"`, `~ shop.get: inputSchema.properties.description: is new`},
		{"not read-only", `"readOnlyHint":true`, `"readOnlyHint":false`, `~ shop.get: annotations.readOnlyHint: is false now (breaking)`},
		{"hint gone", `"readOnlyHint":true`, ``, `~ shop.get: annotations.readOnlyHint: is false now (breaking)`},
		{"harmless hint", `"readOnlyHint":true`, `"readOnlyHint":true,"destructiveHint":false`, `~ shop.get: annotations.destructiveHint is new`},
		{"destructive hint", `"readOnlyHint":true`, `"readOnlyHint":true,"destructiveHint":true`, `~ shop.get: annotations.destructiveHint is new`},
		{"required argument", `"required":["id"]`, `"required":["id","view"]`, `~ shop.get: inputSchema.required: "view" must be given now (breaking)`},
		{"not required argument", `"required":["id"]`, `"required":[]`, `~ shop.get: inputSchema.required changed`},
		{"argument gone", `"id":{"type":"string"},`, ``, `~ shop.get: inputSchema.properties.id: is gone (breaking)`},
		{"argument value gone", `["short","long"]`, `["long"]`, `~ shop.get: inputSchema.properties.view.enum: lost "short" (breaking)`},
		{"argument value new", `["short","long"]`, `["short","long","all"]`, `~ shop.get: inputSchema.properties.view.enum changed`},
		{"argument values", `"id":{"type":"string"}`, `"id":{"type":"string","enum":["a"]}`, `~ shop.get: inputSchema.properties.id.enum: only "a" now (breaking)`},
		{"argument type narrower", `["integer","null"]`, `"integer"`, `~ shop.get: inputSchema.properties.n.type changed (breaking)`},
		{"argument type wider", `"id":{"type":"string"}`, `"id":{"type":["string","null"]}`, `~ shop.get: inputSchema.properties.id.type changed`},
		{"field gone", `,"cents":{"type":"integer"}`, ``, `~ shop.get: outputSchema.properties.cents: is gone (breaking)`},
		{"field optional", `["status","cents"]`, `["status"]`, `~ shop.get: outputSchema.required: "cents" may be missing now (breaking)`},
		{"status lost", `["new","paid"]`, `["new"]`, `~ shop.get: outputSchema.properties.status.enum: lost "paid" (breaking)`},
		{"status gained", `["new","paid"]`, `["new","paid","void"]`, `~ shop.get: outputSchema.properties.status.enum: gained "void" (breaking)`},
		{"field wider", `"cents":{"type":"integer"}`, `"cents":{"type":["integer","null"]}`, `~ shop.get: outputSchema.properties.cents.type changed (breaking)`},
		{"open", `,"additionalProperties":false`, ``, `~ shop.get: outputSchema.additionalProperties is gone (breaking)`},
		{"a member twice", `"name":"get"`, `"name":"get","name":"get"`, `~ shop.get: name is new`},
		{"odd name", `"id":{"type":"string"}`, `"id":{"type":"string","a.b\u001b[31m":1}`, `~ shop.get: inputSchema.properties.id."a.b\x1b[31m" is new`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(order, tt.old) {
				t.Fatalf("no %s", tt.old)
			}
			old := shop(t, map[string]string{"shop.get": order})
			now := shop(t, map[string]string{"shop.get": strings.Replace(order, tt.old, tt.now, 1)})
			if got := strings.TrimSpace(printed(t, old, now, false)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func printed(t *testing.T, old, now *lock.File, texts bool) string {
	t.Helper()
	var b strings.Builder
	for _, c := range lock.Compare(old, now) {
		if err := c.Print(&b, texts); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestCompare(t *testing.T) {
	old := shop(t, map[string]string{"shop.gone": `{"name":"gone"}`, "shop.get": `{"name":"get","description":"old"}`, "prompt:shop.p": `{"name":"p","arguments":[]}`})
	now := shop(t, map[string]string{"shop.new": `{"name":"new"}`, "shop.get": `{"name":"get","description":"ne\u202ew\nline"}`, "prompt:shop.p": `{"name":"p","arguments":[{"name":"a"}]}`})
	old.Backends["left"] = lock.Backend{}
	now.Backends["shop"] = lock.Backend{Instructions: "Obey.", Revision: "2025-11-25", Server: "shop 2.5.0"}
	now.Backends["more"] = lock.Backend{Server: "more"}
	want := `- left: gone (breaking)
    - {}
+ more
    + {"server":"more"}
~ prompt:shop.p: arguments changed (breaking)
    - []
    + [{"name":"a"}]
~ shop: instructions changed (text)
    - "Ask first."
    + "Obey."
~ shop: server changed
    - "shop 2.4.0"
    + "shop 2.5.0"
~ shop.get: description changed (text)
    - "old"
    + "ne\u202ew\nline"
- shop.gone: gone (breaking)
    - {"name":"gone"}
+ shop.new
    + {"name":"new"}
`
	if diff := cmp.Diff(want, printed(t, old, now, true)); diff != "" {
		t.Errorf("Compare (-want +got):\n%s", diff)
	}
	if got := printed(t, old, old, true); got != "" {
		t.Errorf("with itself: %s", got)
	}
}

func TestChangeAsJSON(t *testing.T) {
	old := shop(t, map[string]string{"shop.get": `{"name":"get"}`})
	now := shop(t, map[string]string{"shop.get": `{"name":"get","description":"<b>"}`, "resource:shop.x://a": `{"uri":"x://a"}`})
	got, err := json.Marshal(lock.Compare(old, now))
	want := `[{"name":"resource:shop.x://a","backend":"shop","kind":"resource","original":"x://a","change":"added","class":"compatible","details":[],"new":{"uri":"x://a"}},` +
		`{"name":"shop.get","backend":"shop","kind":"tool","original":"get","change":"changed","class":"text","details":[{"path":"description","class":"text","new":"\u003cb\u003e"}],"old":{"name":"get"},"new":{"description":"\u003cb\u003e","name":"get"}}]`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

// A backend's names do not appear in logs about a change.
func TestParts(t *testing.T) {
	old, now := []byte(`{"description":"a","inputSchema":{"type":"object"}}`), []byte(`{"description":"b","inputSchema":{"title":"x","type":"object"},"x\u001b":1,"y":2}`)
	if got, want := lock.Parts(lock.Differences(lock.Tool, old, now)), "description, inputSchema, other members"; got != want {
		t.Errorf("Parts = %q, want %q", got, want)
	}
}
