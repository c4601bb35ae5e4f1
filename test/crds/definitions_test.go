package crds

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// cups is a definition of this test, which is not one of vmcp's.
const cups = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cups.kitchen.test}
spec:
  group: kitchen.test
  scope: Namespaced
  names: {kind: Cup, plural: cups, singular: cup, listKind: CupList}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              properties:
                size: {type: string, enum: [small, large]}
                spoons:
                  type: array
                  maxItems: 5
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [name]
                  items: {type: object, required: [name], properties: {name: {type: string, maxLength: 9}}}
                free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              x-kubernetes-validations:
                - {rule: "has(self.size) || has(self.free)", message: say what size it is}
`

func TestDefinitions(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"as it is", "", "", ""},
		{"a typo", "served:", "serbed:", `unknown field "serbed"`},
		{"a name", "cups.kitchen.test}", "cup.kitchen.test}", "must be spec.names.plural"},
		{"no type", "size: {type: string,", "size: {", "must not be empty for specified object fields"},
		{"a rule", "has(self.free)", "has(self.fee)", "undefined field 'fee'"},
		{"a rule that costs too much", "has(self.size) || has(self.free)", "self.spoons.all(a, self.spoons.all(b, self.spoons.all(c, self.spoons.all(d, self.spoons.all(e, a.name + b.name + c.name + d.name == e.name)))))", "estimated rule cost exceeds"},
		{"additional properties", "free: {type: object, x", "free: {type: object, properties: {a: {type: string}}, additionalProperties: {type: string}, x", "additionalProperties and properties are mutual exclusive"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(cups, tt.old, tt.new, 1)
			if tt.name == "a rule that costs too much" {
				text = strings.Replace(text, "maxItems: 5", "maxItems: 5000", 1)
			}
			_, err := NewDefinition([]byte(text))
			if got := say(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("NewDefinition: %s, want %s", got, tt.want)
			}
		})
	}
}

func TestObjects(t *testing.T) {
	d, err := NewDefinition([]byte(cups))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, spec, want string }{
		{"good", "{size: small, spoons: [{name: a}, {name: b}], free: {any: [1]}}", ""},
		{"unknown", "{size: small, sise: large}", `unknown field "spec.sise"`},
		{"not in the enum", "{size: medium}", `spec.size: Unsupported value: "medium": supported values: "small", "large"`},
		{"required", "{size: small, spoons: [{}]}", "spec.spoons[0].name: Required value"},
		{"twice", "{size: small, spoons: [{name: a}, {name: a}]}", `spec.spoons[1]: Duplicate value: {"name":"a"}`},
		{"a rule", "{}", "say what size it is"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			object := map[string]any{}
			if err := yaml.UnmarshalStrict([]byte("apiVersion: kitchen.test/v1\nkind: Cup\nmetadata: {name: a}\nspec: "+tt.spec), &object); err != nil {
				t.Fatal(err)
			}
			err := d.Validate(object)
			if got := say(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("Validate: %s, want %s", got, tt.want)
			}
		})
	}
}

// say is the text of an error, "" for nil.
func say(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
