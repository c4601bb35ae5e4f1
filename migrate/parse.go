package migrate

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoding is how the legacy product read a definition: it decides what unknown fields
// and numbers are.
type decoding int

const (
	asFile     decoding = iota // a configuration file: strict, integers stay integers
	asResource                 // a Kubernetes resource: unknown fields are dropped, numbers go through JSON
	asLax                      // integers stay, unknown fields are dropped: the engine's own tests
)

// Definition is one workflow as it stands in a file.
type Definition struct {
	// Name is what the definition calls itself, "" when it has no name.
	Name string
	// Pos is where it begins.
	Pos Pos

	root     *value
	decoding decoding
	problems Errors // of reading it
}

// Parse finds the workflows in a file: a configuration with compositeTools, one
// definition or a list of them, or Kubernetes manifests of the kinds
// VirtualMCPCompositeToolDefinition and VirtualMCPServer; several documents too.
//
// The error says why the file cannot be read; what is wrong with a definition is the
// error of Translate.
func Parse(filename string, data []byte) ([]*Definition, error) {
	return parse(filename, data, asFile)
}

// ParseAt is Parse for one definition that is not in a file as it is: a configuration
// has kept it as JSON. Everything in it is said to be at pos; paths still name the field.
func ParseAt(pos Pos, data []byte) (*Definition, error) {
	docs, err := documents(pos.File, data)
	if err != nil {
		return nil, err
	}
	if len(docs) != 1 || docs[0].Kind != yaml.MappingNode {
		return nil, Errors{{Pos: pos, Msg: "want one workflow with name, description and steps"}}
	}
	return define(&reader{file: pos.File, at: &pos}, docs[0], asFile), nil
}

func parse(filename string, data []byte, how decoding) (defs []*Definition, err error) {
	docs, err := documents(filename, data)
	if err != nil {
		return nil, err
	}
	var problems Errors
	for _, doc := range docs {
		found, bad := find(filename, doc, how)
		defs = append(defs, found...)
		problems = append(problems, bad...)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	if len(defs) == 0 {
		return nil, Errors{{Pos: Pos{File: filename}, Msg: "no workflow here: want compositeTools, a definition with steps, " +
			"or a manifest of kind VirtualMCPCompositeToolDefinition or VirtualMCPServer"}}
	}
	return defs, nil
}

// documents reads the YAML documents of a file.
func documents(filename string, data []byte) (docs []*yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil { // the YAML package panics on a few broken texts
			docs, err = nil, Errors{{Pos: Pos{File: filename}, Msg: fmt.Sprintf("not YAML: %v", r)}}
		}
	}()
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, Errors{yamlProblem(filename, err)}
		}
		if len(doc.Content) > 0 {
			docs = append(docs, doc.Content[0])
		}
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// yamlProblem takes the place out of an error of the YAML package.
func yamlProblem(filename string, err error) Problem {
	msg := err.Error()
	p := Problem{Pos: Pos{File: filename}}
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		p.Pos.Line, _ = strconv.Atoi(m[1])
		if p.Pos.Line > 0 {
			p.Pos.Column = 1
		}
		msg = msg[len(m[0]):]
	}
	p.Msg = "not YAML: " + msg
	return p
}

// find returns the definitions of one document.
func find(filename string, doc *yaml.Node, how decoding) (defs []*Definition, problems Errors) {
	if kind := field(doc, "kind"); kind != nil && field(doc, "apiVersion") != nil {
		how = asResource
		switch kind.Value {
		case "VirtualMCPCompositeToolDefinition":
			doc = field(doc, "spec")
		case "VirtualMCPServer":
			doc = field(field(doc, "spec"), "config")
		case "List":
			for _, item := range elements(field(doc, "items")) {
				found, bad := find(filename, item, how)
				defs, problems = append(defs, found...), append(problems, bad...)
			}
			return defs, problems
		default:
			return nil, nil
		}
	}
	var nodes []*yaml.Node
	switch list := field(doc, "compositeTools"); {
	case list != nil:
		nodes = elements(list)
	case field(doc, "steps") != nil:
		nodes = []*yaml.Node{doc}
	case doc != nil && doc.Kind == yaml.SequenceNode:
		nodes = doc.Content
	}
	for _, n := range nodes {
		d := define(&reader{file: filename}, n, how)
		if d.root.mapping() == nil {
			problems = append(problems, Problem{Pos: d.Pos, Msg: "want a workflow with name, description and steps, have " + d.root.kind()})
			continue
		}
		defs = append(defs, d)
	}
	return defs, problems
}

// define reads one definition.
func define(r *reader, n *yaml.Node, how decoding) *Definition {
	r.crd, r.budget = how == asResource, maxNodes
	root := r.read(n, "", 0)
	return &Definition{Name: root.mapping().get("name").text(), Pos: r.pos(n), root: root, decoding: how, problems: r.problems}
}

// field returns the value of a key of a mapping node, nil without one.
func field(n *yaml.Node, key string) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func elements(n *yaml.Node) []*yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// ParseResource is Parse for the spec of a Kubernetes resource that stands alone.
func ParseResource(filename string, data []byte) (*Definition, error) {
	return parseOne(filename, data, asResource)
}

// ParseLax is Parse for one definition of which unknown fields are dropped.
func ParseLax(filename string, data []byte) (*Definition, error) {
	return parseOne(filename, data, asLax)
}

func parseOne(filename string, data []byte, how decoding) (*Definition, error) {
	defs, err := parse(filename, data, how)
	if err != nil {
		return nil, err
	}
	return defs[0], nil
}
