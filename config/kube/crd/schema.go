package crd

import (
	"reflect"
	"strconv"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/limits"
)

// most bounds lists and maps that declare no bound: the API server estimates the cost of CEL rules by it.
const most = 1000

// generator makes the schemas of one definition. The fields of a struct are described at its first occurrence.
type generator struct {
	describe  Describe
	described map[reflect.Type]bool
}

// structure makes the schema of a struct. Unknown fields are pruned, or refused with strict field validation.
func (g generator) structure(t reflect.Type) tree {
	properties, required := tree{}, []string{}
	again := g.described[t]
	g.described[t] = true
	for _, f := range document.ObjectFields(t) {
		in, sf := t, t.FieldByIndex(f.Index)
		for _, i := range f.Index[:len(f.Index)-1] {
			in = in.Field(i).Type
		}
		p := g.value(sf, f)
		if text := g.describe(in, sf.Name); text != "" && !again {
			if f.Default != "" {
				text += " Default: " + f.Default + "."
			}
			p["description"] = text
		}
		put(p, fields[field{in, f.Name}])
		properties[f.Name] = p
		if f.Required {
			required = append(required, f.Name)
		}
	}
	s := tree{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	put(s, structures[t])
	if t == reflect.TypeFor[config.Config]() {
		listMap(s, "scriptedToolRefs", "name")
		listMap(s, "compositeToolRefs", "name")
	}
	return s
}

// value makes the schema of a field.
func (g generator) value(sf reflect.StructField, f document.Field) tree {
	s := g.of(sf.Type)
	bound := most
	if n, err := strconv.Atoi(sf.Tag.Get("max")); err == nil {
		bound = n
	}
	switch s["type"] {
	case "array":
		s["maxItems"] = bound
	case "string":
		if sf.Tag.Get("max") != "" {
			s["maxLength"] = bound
		}
		if f.Required && f.Enum == nil {
			s["minLength"] = 1
		}
	case "object":
		if s["additionalProperties"] != nil {
			s["maxProperties"] = bound
		}
	}
	if f.Enum != nil {
		s["enum"] = f.Enum
	}
	if f.Default == "0s" {
		delete(s, "x-kubernetes-validations")
	}
	return s
}

// of makes the schema of a type.
func (g generator) of(t reflect.Type) tree {
	switch t {
	case reflect.TypeFor[config.Raw]():
		return free()
	case reflect.TypeFor[anything]():
		return tree{"x-kubernetes-preserve-unknown-fields": true}
	case reflect.TypeFor[config.CompositeTool]():
		return g.structure(reflect.TypeFor[workflow]())
	case reflect.TypeFor[limits.Duration]():
		return tree{"type": "string", "maxLength": 64, "pattern": `^([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^[0-9]+d$`, "x-kubernetes-validations": []any{positive("must be a positive duration")}}
	case reflect.TypeFor[limits.Bytes]():
		return tree{"type": "string", "maxLength": 64, "pattern": `^[0-9]+ *(B|KB|MB|GB)$`, "x-kubernetes-validations": []any{positive("must be more than 0")}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.Struct:
		return g.structure(t)
	case reflect.Slice:
		return tree{"type": "array", "items": g.of(t.Elem())}
	case reflect.Map:
		return tree{"type": "object", "additionalProperties": g.of(t.Elem())}
	case reflect.Bool:
		return tree{"type": "boolean"}
	case reflect.String:
		return tree{"type": "string"}
	default:
		return tree{"type": "integer", "format": "int64", "minimum": 1}
	}
}

// free is the schema of JSON that the API server preserves.
func free() tree { return tree{"type": "object", "x-kubernetes-preserve-unknown-fields": true} }

// positive is the rule that a quantity is not zero: it has a digit other than 0.
func positive(message string) any { return tree{"rule": "self.matches('[1-9]')", "message": message} }
