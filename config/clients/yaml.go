package clients

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yaml reads the first document of a YAML file.
func (d *document) yaml(data []byte) (*node, error) {
	var doc yaml.Node
	err := yaml.NewDecoder(strings.NewReader(string(data))).Decode(&doc)
	if errors.Is(err, io.EOF) {
		return &node{kind: object, line: 1, column: 1}, nil
	}
	if err != nil {
		line, message := yamlError(err.Error())
		return nil, d.problem(line, 1, "%s", message)
	}
	root := d.yamlNode(doc.Content[0], 0)
	if root == nil {
		return nil, d.problem(1, 1, "more than %d values, or more than %d within each other", maxNodes, maxDepth)
	}
	if root.kind != object {
		return nil, d.problem(root.line, root.column, "no MCP servers: want an object")
	}
	return root, nil
}

var yamlPlace = regexp.MustCompile(`^yaml: line (\d+): (.*)$`)

func yamlError(text string) (int, string) {
	text, _, _ = strings.Cut(text, "\n")
	if m := yamlPlace.FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[1])
		return line, m[2]
	}
	return 1, strings.TrimPrefix(text, "yaml: ")
}

// yamlNode converts a node; nil if the document has too many. Aliases are expanded.
func (d *document) yamlNode(y *yaml.Node, depth int) *node {
	if !d.count() || depth > maxDepth {
		return nil
	}
	n := &node{line: y.Line, column: y.Column}
	switch y.Kind {
	case yaml.AliasNode:
		return d.yamlNode(y.Alias, depth+1)
	case yaml.ScalarNode:
		n.kind, n.text = scalar(y)
	case yaml.SequenceNode:
		n.kind = list
		for _, item := range y.Content {
			value := d.yamlNode(item, depth+1)
			if value == nil {
				return nil
			}
			n.items = append(n.items, value)
		}
	case yaml.MappingNode:
		n.kind = object
		for i := 0; i+1 < len(y.Content); i += 2 {
			value := d.yamlNode(y.Content[i+1], depth+1)
			if value == nil {
				return nil
			}
			n.members = append(n.members, member{y.Content[i].Value, value, y.Content[i].Line, y.Content[i].Column})
		}
	}
	return n
}

func scalar(y *yaml.Node) (kind, string) {
	switch y.ShortTag() {
	case "!!null":
		return null, ""
	case "!!bool":
		var b bool
		if y.Decode(&b) == nil {
			return boolean, strconv.FormatBool(b)
		}
	case "!!int", "!!float":
		return number, y.Value
	}
	return text, y.Value
}
