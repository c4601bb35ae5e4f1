package toolhive

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/internal/document"
)

// tree is a decoded JSON object. A translation removes the members that it has used; those that remain are not supported.
type tree = map[string]any

// decodeTree decodes a JSON object; numbers keep their text.
func decodeTree(data []byte, into *tree) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // trees of JSON have a JSON form
	}
	return data
}

// member removes a member from a tree and returns it; nil if it is not a JSON object.
func member(t tree, name string) tree {
	v, _ := t[name].(tree)
	delete(t, name)
	return v
}

// keep removes from v, the value at path, all fields that type t does not have, and calls drop with the path of each.
func keep(v any, t reflect.Type, path string, drop func(path string)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return
	}
	switch v := v.(type) {
	case tree:
		if t.Kind() == reflect.Map {
			for _, key := range slices.Sorted(maps.Keys(v)) {
				keep(v[key], t.Elem(), config.KeyPath(path, key), drop)
			}
		}
		if t.Kind() == reflect.Struct {
			keepFields(v, t, path, drop)
		}
	case []any:
		if t.Kind() == reflect.Slice {
			for i, e := range v {
				keep(e, t.Elem(), document.IndexPath(path, i), drop)
			}
		}
	}
}

func keepFields(v tree, t reflect.Type, path string, drop func(path string)) {
	types := map[string]reflect.Type{}
	for _, f := range document.ObjectFields(t) {
		types[f.Name] = t.FieldByIndex(f.Index).Type
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		at := config.KeyPath(path, name)
		if field, ok := types[name]; ok {
			keep(v[name], field, at, drop)
			continue
		}
		delete(v, name)
		drop(at)
	}
}
