package document

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// entry is one key and value of a mapping.
type entry struct {
	key     string
	keyNode *yaml.Node
	value   *yaml.Node
	path    string
}

// entries lists a mapping's keys in order, with merge keys resolved: the mapping's own
// keys take precedence over merged ones, and of several merged mappings the first does.
func (d *Document) entries(n *yaml.Node, path string, depth int) []entry {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, "want a mapping, have %s", describe(n))
		return nil
	}
	var own []entry
	var merged []*yaml.Node
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.ShortTag() == "!!merge" {
			merged = append(merged, v)
			continue
		}
		key, ok := d.key(k, path)
		if !ok {
			continue
		}
		e := entry{key, k, v, KeyPath(path, key)}
		if before := first[key]; before != nil {
			d.wrong(k, e.path, "given twice, first in line %d", before.Line)
			continue
		}
		first[key] = k
		own = append(own, e)
	}
	for _, m := range merged {
		own = d.merge(own, first, m, path, depth)
	}
	return own
}

// key returns the string of a mapping's key.
func (d *Document) key(k *yaml.Node, path string) (string, bool) {
	if k.Kind == yaml.AliasNode {
		k = k.Alias
	}
	if k.Kind != yaml.ScalarNode || isNull(k) {
		d.wrong(k, path, "want a string as a key, have %s", describeKey(k))
		return "", false
	}
	return k.Value, true
}

func describeKey(k *yaml.Node) string {
	if isNull(k) {
		return "nothing"
	}
	return describe(k)
}

// merge adds to own the missing keys of m: a mapping, an alias of one, or a list of these.
func (d *Document) merge(own []entry, have map[string]*yaml.Node, m *yaml.Node, path string, depth int) []entry {
	m, ok := d.enter(m, path+".<<", depth+1)
	if !ok {
		return own
	}
	if m.Kind == yaml.SequenceNode {
		for _, item := range m.Content {
			own = d.merge(own, have, item, path, depth+1)
		}
		return own
	}
	for _, e := range d.mergedEntries(m, path, depth+1) {
		if have[e.key] == nil {
			have[e.key] = e.keyNode
			own = append(own, e)
		}
	}
	return own
}

func (d *Document) mergedEntries(m *yaml.Node, path string, depth int) []entry {
	if m.Kind != yaml.MappingNode {
		d.wrong(m, path, "<< wants a mapping to merge, has %s", describe(m))
		return nil
	}
	return d.entries(m, path, depth)
}

// orList is "a", "a or b", "a, b or c".
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
