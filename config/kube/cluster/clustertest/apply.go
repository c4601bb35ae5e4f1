package clustertest

import (
	"maps"
	"slices"
	"strings"
)

// owners are the fields that each field manager owns, as server-side apply keeps them: by the path of the field, in which
// an element of a list map has its key.
type owners map[string]map[string]bool

// keys are the keys of list maps.
var keys = map[string]string{"conditions": "type", "servers": "name"}

// apply applies the fields of a manager, by force: it owns them afterwards, alone if their values have changed. Fields that it
// applied earlier and not now are removed unless another manager owns them.
func (o owners) apply(manager string, before, applied map[string]any) map[string]any {
	fields, now := flat("", before), flat("", applied)
	for path, value := range now {
		if fields[path] != value {
			for _, owned := range o {
				delete(owned, path)
			}
		}
		fields[path] = value
	}
	earlier := o[manager]
	o[manager] = map[string]bool{}
	for path := range now {
		o[manager][path] = true
	}
	for path := range earlier {
		if !o.owned(path) {
			delete(fields, path)
		}
	}
	return tree(fields)
}

func (o owners) owned(path string) bool {
	for _, owned := range o {
		if owned[path] {
			return true
		}
	}
	return false
}

// flat returns the fields of a tree by path, such as conditions[Ready].status written with tabs for dots.
func flat(at string, t map[string]any) map[string]any {
	all := map[string]any{}
	for name, value := range t {
		list, ok := value.([]any)
		if !ok {
			all[at+name] = value
			continue
		}
		for _, e := range list {
			element := e.(map[string]any)
			maps.Copy(all, flat(at+name+"\t"+element[keys[name]].(string)+"\t", element))
		}
	}
	return all
}

// tree is the opposite of flat. The elements of lists are sorted by their keys.
func tree(fields map[string]any) map[string]any {
	t, inner := map[string]any{}, map[string]map[string]map[string]any{}
	for path, value := range fields {
		name, rest, ok := strings.Cut(path, "\t")
		if !ok {
			t[name] = value
			continue
		}
		key, rest, _ := strings.Cut(rest, "\t")
		if inner[name] == nil {
			inner[name] = map[string]map[string]any{}
		}
		if inner[name][key] == nil {
			inner[name][key] = map[string]any{}
		}
		inner[name][key][rest] = value
	}
	for name, elements := range inner {
		list := []any{}
		for _, key := range slices.Sorted(maps.Keys(elements)) {
			list = append(list, tree(elements[key]))
		}
		t[name] = list
	}
	if len(t) == 0 {
		return nil
	}
	return t
}
