package document

import (
	"reflect"
	"strings"
	"sync"
)

// Field is a field of a struct with its tags.
type Field struct {
	Index    []int  // as of reflect.VisibleFields
	Name     string // in YAML
	Required bool
	Enum     []string
	Default  string
}

var fileFields, objectFields sync.Map // reflect.Type → []Field

// Fields lists the fields of struct type t that a file may have, including those of embedded structs.
func Fields(t reflect.Type) []Field {
	return fields(t, &fileFields, func(tag reflect.StructTag) bool { return tag.Get("config") != "-" })
}

// ObjectFields lists the fields of struct type t that a Kubernetes object may have: those whose tag crd is yes.
func ObjectFields(t reflect.Type) []Field {
	return fields(t, &objectFields, func(tag reflect.StructTag) bool { return tag.Get("crd") == "yes" })
}

func fields(t reflect.Type, cache *sync.Map, wanted func(reflect.StructTag) bool) []Field {
	if cached, ok := cache.Load(t); ok {
		return cached.([]Field)
	}
	var found []Field
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			continue
		}
		if sf.Anonymous {
			for _, f := range fields(sf.Type, cache, wanted) {
				f.Index = append([]int{i}, f.Index...)
				found = append(found, f)
			}
			continue
		}
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" || !wanted(sf.Tag) {
			continue
		}
		f := Field{Index: []int{i}, Name: name, Required: options == "", Default: sf.Tag.Get("default")}
		if enum := sf.Tag.Get("enum"); enum != "" {
			f.Enum = strings.Split(enum, ",")
		}
		found = append(found, f)
	}
	cache.Store(t, found)
	return found
}

// fields are the known fields of t.
func (d *Document) fields(t reflect.Type) []Field {
	if d.rules.Fields != nil {
		return d.rules.Fields(t)
	}
	return Fields(t)
}

func (d *Document) fieldNamed(t reflect.Type, name string) (Field, bool) {
	for _, f := range d.fields(t) {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}
