package migrate

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// decoding is how the legacy product decoded a definition: the treatment of unknown fields
// and numbers.
type decoding int

const (
	asFile     decoding = iota // a configuration file: strict, integers stay integers
	asResource                 // a Kubernetes resource: unknown fields are dropped, numbers go through JSON
	asLax                      // integers stay integers, unknown fields are dropped: as in the engine's own tests
)

// Definition is one workflow of a file, read but not checked.
type Definition struct {
	// Name is the name in the definition, "" when it has none.
	Name string
	// Resource is the name of the Kubernetes resource that it is, "" elsewhere.
	Resource string
	// Pos is the beginning of the definition.
	Pos diag.Pos

	root     *value
	decoding decoding
	problems diag.Problems // found while reading it
}

// File has the workflows of a file, and the references to others.
type File struct {
	Definitions []*Definition
	// References are the references of servers to resources with definitions.
	References []Reference
}

// Reference is an entry of compositeToolRefs.
type Reference struct {
	Name string
	Pos  diag.Pos
	Path string
}

// Parse finds the workflows in a file: a configuration with compositeTools, one
// definition or a list of them, or Kubernetes manifests of the kinds
// VirtualMCPCompositeToolDefinition and VirtualMCPServer. A file may have several documents.
//
// The error is about the file as a whole; mistakes in a definition are in the
// error of Read.
func Parse(filename string, data []byte) ([]*Definition, error) {
	return parse(filename, data, asFile)
}

// ParseAt is Parse for one definition in JSON, which a configuration has converted from YAML.
// All its problems have the position pos; their paths name the field.
func ParseAt(pos diag.Pos, data []byte) (*Definition, error) {
	docs, err := documents(pos.File, data)
	if err != nil {
		return nil, err
	}
	if len(docs) != 1 || docs[0].Kind != yaml.MappingNode {
		return nil, diag.Problems{{Pos: pos, Code: codeMigrate, Message: "want one workflow with name, description and steps"}}
	}
	return define(&reader{file: pos.File, at: &pos}, docs[0], asFile), nil
}

// Find is Parse with the references, and without an error for a file without a workflow.
func Find(filename string, data []byte) (*File, error) { return read(filename, data, asFile) }

func parse(filename string, data []byte, how decoding) ([]*Definition, error) {
	f, err := read(filename, data, how)
	if err != nil {
		return nil, err
	}
	if len(f.Definitions) == 0 {
		return nil, NoWorkflow(filename)
	}
	return f.Definitions, nil
}

// NoWorkflow is the error of a file without a workflow.
func NoWorkflow(filename string) error {
	return diag.Problems{{Pos: diag.Pos{File: filename}, Code: codeMigrate, Message: "no workflow here: want compositeTools, a definition with steps, " +
		"or a manifest of kind VirtualMCPCompositeToolDefinition or VirtualMCPServer"}}
}

func read(filename string, data []byte, how decoding) (*File, error) {
	docs, err := documents(filename, data)
	if err != nil {
		return nil, err
	}
	f := &File{}
	var problems diag.Problems
	for _, doc := range docs {
		problems = append(problems, f.find(filename, doc, how)...)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return f, nil
}

// documents reads the YAML documents of a file.
func documents(filename string, data []byte) (docs []*yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil { // the YAML package panics on a few broken texts
			docs, err = nil, diag.Problems{{Pos: diag.Pos{File: filename}, Code: codeMigrate, Message: fmt.Sprintf("not YAML: %v", r)}}
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
			return nil, diag.Problems{yamlProblem(filename, err)}
		}
		if len(doc.Content) > 0 {
			docs = append(docs, doc.Content[0])
		}
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// yamlProblem converts an error of the YAML package, whose text has the line, into a problem.
func yamlProblem(filename string, err error) diag.Problem {
	msg := err.Error()
	p := diag.Problem{Pos: diag.Pos{File: filename}, Code: codeMigrate}
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		p.Pos.Line, _ = strconv.Atoi(m[1])
		if p.Pos.Line > 0 {
			p.Pos.Column = 1
		}
		msg = msg[len(m[0]):]
	}
	p.Message = "not YAML: " + msg
	return p
}

// find adds the definitions and references of one document.
func (f *File) find(filename string, doc *yaml.Node, how decoding) (problems diag.Problems) {
	resource := ""
	if kind := fieldOf(doc, "kind"); kind != nil && fieldOf(doc, "apiVersion") != nil {
		how = asResource
		switch kind.Value {
		case "VirtualMCPCompositeToolDefinition":
			if name := fieldOf(fieldOf(doc, "metadata"), "name"); name != nil {
				resource = name.Value
			}
			doc = fieldOf(doc, "spec")
		case "VirtualMCPServer":
			f.refer(filename, fieldOf(doc, "spec"), "spec")
			doc = fieldOf(fieldOf(doc, "spec"), "config")
			f.refer(filename, doc, "spec.config")
		case "List":
			for _, item := range elementsOf(fieldOf(doc, "items")) {
				problems = append(problems, f.find(filename, item, how)...)
			}
			return problems
		default:
			return nil
		}
	}
	var nodes []*yaml.Node
	switch list := fieldOf(doc, "compositeTools"); {
	case list != nil:
		nodes = elementsOf(list)
	case fieldOf(doc, "steps") != nil:
		nodes = []*yaml.Node{doc}
	case doc != nil && doc.Kind == yaml.SequenceNode:
		nodes = doc.Content
	}
	for _, n := range nodes {
		d := define(&reader{file: filename}, n, how)
		if d.root.Mapping() == nil {
			problems = append(problems, diag.Problem{Pos: d.Pos, Code: codeMigrate, Message: "want a workflow with name, description and steps, have " + d.root.kind()})
			continue
		}
		d.Resource = resource
		f.Definitions = append(f.Definitions, d)
	}
	return problems
}

// refer adds the references of a server.
func (f *File) refer(filename string, from *yaml.Node, path string) {
	for i, ref := range elementsOf(fieldOf(from, "compositeToolRefs")) {
		if name := fieldOf(ref, "name"); name != nil {
			f.References = append(f.References, Reference{
				Name: name.Value, Pos: diag.Pos{File: filename, Line: name.Line, Column: name.Column}, Path: index(path+".compositeToolRefs", i),
			})
		}
	}
}

// define reads one definition.
func define(r *reader, n *yaml.Node, how decoding) *Definition {
	r.crd, r.budget = how == asResource, maxNodes
	root := r.read(n, "", 0)
	return &Definition{Name: root.Mapping().Get("name").Text(), Pos: r.pos(n), root: root, decoding: how, problems: r.problems}
}

// fieldOf returns the value of a key of a mapping node, nil without one.
func fieldOf(n *yaml.Node, key string) *yaml.Node {
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

// elementsOf returns the nodes of a list, nil where there is none.
func elementsOf(n *yaml.Node) []*yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// ParseResource is Parse for the spec of a Kubernetes resource without the resource around it.
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
