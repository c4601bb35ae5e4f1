package migrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// ScriptedTools writes scripts as the scriptedTools of a configuration, in YAML, with their
// sources inline.
func ScriptedTools(scripts []*Script) ([]byte, error) {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, s := range scripts {
		e, err := s.entry("")
		if err != nil {
			return nil, err
		}
		list.Content = append(list.Content, e)
	}
	return write(mappingNode("scriptedTools", list))
}

// Rewrite returns a configuration in which scripted tools replace the composite
// tools. file returns the path of a tool's script for the configuration. Everything
// else in the configuration is kept, including comments.
func Rewrite(config []byte, scripts []*Script, file func(*Script) string) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(config, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 || fieldOf(doc.Content[0], "compositeTools") == nil {
		return nil, fmt.Errorf("the configuration has no compositeTools")
	}
	root := doc.Content[0]
	list := fieldOf(root, "scriptedTools")
	if list == nil || list.Kind != yaml.SequenceNode {
		list = &yaml.Node{Kind: yaml.SequenceNode}
		rename(root, "compositeTools", "scriptedTools", list, scripts)
	} else {
		rename(root, "compositeTools", "", nil, scripts)
	}
	list.Style = 0
	for _, s := range scripts {
		e, err := s.entry(file(s))
		if err != nil {
			return nil, err
		}
		list.Content = append(list.Content, e)
	}
	return write(&doc)
}

// rename removes the migrated workflows from the list at key from; when none is left, the
// key is removed too, or replaced by the key to with another list.
func rename(root *yaml.Node, from, to string, list *yaml.Node, scripts []*Script) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != from {
			continue
		}
		old := root.Content[i+1]
		old.Content = slices.DeleteFunc(slices.Clone(elementsOf(old)), func(n *yaml.Node) bool {
			name := fieldOf(n, "name")
			return name != nil && slices.ContainsFunc(scripts, func(s *Script) bool { return s.Name == name.Value })
		})
		pair := []*yaml.Node{}
		if to != "" {
			key := *root.Content[i]
			key.Value = to
			pair = append(pair, &key, list)
		}
		if len(old.Content) == 0 {
			root.Content = slices.Replace(root.Content, i, i+2, pair...)
		} else {
			root.Content = append(root.Content, pair...)
		}
		return
	}
}

// entry is one scripted tool; file is the path of its source, "" for an inline one.
func (s *Script) entry(file string) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	add := func(key string, v *yaml.Node) { n.Content = append(n.Content, textNode(key), v) }
	add("name", textNode(s.Name))
	add("description", textNode(s.Description))
	for _, part := range []struct {
		key  string
		json json.RawMessage
	}{{"parameters", s.Parameters}, {"output", s.Output}, {"annotations", s.Annotations}} {
		if part.json == nil {
			continue
		}
		v, err := jsonNode(part.json)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", s.Name, part.key, err)
		}
		add(part.key, v)
	}
	if s.Timeout != 0 && s.Timeout != defaultTimeout+timeoutSlack {
		n.Content = append(n.Content, textNode("timeout"), s.timeoutNode())
	}
	if file != "" {
		add("scriptFile", textNode(file))
		return n, nil
	}
	source := textNode(s.Source)
	source.Style = yaml.LiteralStyle
	add("script", source)
	return n, nil
}

// timeoutNode is the timeout of the tool, with a comment where it is not that of the workflow.
func (s *Script) timeoutNode() *yaml.Node {
	n := textNode(durationText(s.Timeout))
	if s.Deadline != 0 {
		n.LineComment = fmt.Sprintf("# the script itself ends after %s, as the workflow did; %s more are for its error",
			durationText(s.Deadline), durationText(s.Timeout-s.Deadline))
	}
	return n
}

func textNode(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

func mappingNode(key string, v *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{textNode(key), v}}
}

// jsonNode converts JSON to YAML in block form, the keys in their order.
func jsonNode(data json.RawMessage) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	block(doc.Content[0])
	return doc.Content[0], nil
}

func block(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!str" {
		n.Style = 0
	}
	for _, c := range n.Content {
		block(c)
	}
}

func write(n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}
