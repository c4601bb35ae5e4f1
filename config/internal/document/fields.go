package document

import (
	"reflect"
	"strings"
	"sync"
)

// Field is a field of a struct as its tags describe it.
type Field struct {
	Index    []int  // as of reflect.VisibleFields
	Name     string // in YAML
	Required bool
	Enum     []string
	Default  string
}

var fieldCache sync.Map // reflect.Type → []Field

// Fields lists the fields of struct type t, those of an embedded struct as its own.
func Fields(t reflect.Type) []Field {
	if cached, ok := fieldCache.Load(t); ok {
		return cached.([]Field)
	}
	var fields []Field
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			continue
		}
		if sf.Anonymous {
			for _, f := range Fields(sf.Type) {
				f.Index = append([]int{i}, f.Index...)
				fields = append(fields, f)
			}
			continue
		}
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" || sf.Tag.Get("config") == "-" {
			continue // not of the file
		}
		f := Field{Index: []int{i}, Name: name, Required: options == "", Default: sf.Tag.Get("default")}
		if enum := sf.Tag.Get("enum"); enum != "" {
			f.Enum = strings.Split(enum, ",")
		}
		fields = append(fields, f)
	}
	fieldCache.Store(t, fields)
	return fields
}

func fieldNamed(t reflect.Type, name string) (Field, bool) {
	for _, f := range Fields(t) {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}
