// Package crd generates the CustomResourceDefinitions of the kinds of package object from their structs. The files in
// deploy/crds are checked in; a test compares them.
//
//	go generate ./config/kube/...
//
// The schemas have no $ref, and no defaults: the API server would store those in every object, and a later release
// could not change them.
package crd

import (
	"fmt"
	"reflect"

	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/config/kube/object"
)

//go:generate go test . -run "TestGenerated|TestReference" -update

// Describe returns the description of a field of a struct; "" for none.
type Describe func(in reflect.Type, field string) string

type tree = map[string]any // written with sorted keys

// column is a column of kubectl get; a wide one only with -o wide.
type column struct {
	name, path, kind string
	wide             bool
}

func condition(name, kind string) column {
	return column{name, `.status.conditions[?(@.type=="` + kind + `")].status`, "string", false}
}

// reason is the wide column with the message of Ready.
var reason = column{"Reason", `.status.conditions[?(@.type=="` + object.Ready + `")].message`, "string", true}

var age = column{"Age", ".metadata.creationTimestamp", "date", false}

// A resource is one kind with its columns.
type resource struct {
	kind    object.Kind
	spec    reflect.Type
	about   string
	columns []column
}

var resources = []resource{
	{object.Server, reflect.TypeFor[object.ServerSpec](), "VirtualMCPServer is an MCP endpoint over the backends of a group, at /NAME/mcp.",
		[]column{condition("Ready", object.Ready), condition("Scripts", object.ScriptsValid), condition("Backends", object.BackendsReady), {"Path", ".status.path", "string", false}, age, {"Lease", ".status.lease", "string", true}, reason}},
	{object.Entry, reflect.TypeFor[object.EntrySpec](), "MCPServerEntry is an MCP server that is reached at a URL: a backend of every VirtualMCPServer with the same groupRef.",
		[]column{condition("Ready", object.Ready), {"URL", ".spec.remoteUrl", "string", false}, age, {"Group", ".spec.groupRef.name", "string", true}, reason}},
	{object.Scripted, reflect.TypeFor[object.ScriptedSpec](), "VirtualMCPScriptedToolDefinition is a workflow in Starlark that clients see as a tool of every VirtualMCPServer that refers to it.",
		[]column{condition("Ready", object.Ready), condition("Scripts", object.ScriptsValid), {"Tool", ".spec.name", "string", false}, age, reason}},
	{object.Composite, reflect.TypeFor[workflow](), "VirtualMCPCompositeToolDefinition is a workflow in ToolHive's format that clients see as a tool of every VirtualMCPServer that refers to it.",
		[]column{condition("Ready", object.Ready), condition("Scripts", object.ScriptsValid), {"Tool", ".spec.name", "string", false}, age, reason}},
}

// Files returns the definitions as YAML, by file name.
func Files(describe Describe) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, r := range resources {
		text, err := yaml.Marshal(r.definition(describe))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.kind.Name, err)
		}
		files[object.Group+"_"+r.kind.Plural+".yaml"] = append([]byte("# Generated from the structs of config and config/kube/object: go generate ./config/kube/...\n"), text...)
	}
	return files, nil
}

func (r resource) definition(describe Describe) tree {
	var columns []any
	for _, c := range r.columns {
		one := tree{"name": c.name, "type": c.kind, "jsonPath": c.path}
		if c.wide {
			one["priority"] = 1
		}
		columns = append(columns, one)
	}
	g := generator{describe, map[reflect.Type]bool{}}
	status := r.status(g)
	spec := g.structure(r.spec)
	spec["description"] = "What is wanted."
	root := tree{"type": "object", "description": r.about, "required": []string{"spec"}, "properties": tree{
		"apiVersion": tree{"type": "string"}, "kind": tree{"type": "string"},
		"metadata": tree{"type": "object", "properties": tree{"name": tree{"type": "string", "maxLength": 253}}},
		"spec":     spec, "status": status}}
	put(root, named[r.kind])
	return tree{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": tree{"name": r.kind.Plural + "." + object.Group},
		"spec": tree{
			"group": object.Group, "scope": "Namespaced",
			"names": tree{"kind": r.kind.Name, "listKind": r.kind.Name + "List", "plural": r.kind.Plural, "singular": r.kind.Singular,
				"shortNames": []string{r.kind.ShortName}, "categories": []string{object.Category}},
			"versions": []any{tree{"name": object.Version, "served": true, "storage": true,
				"subresources": tree{"status": tree{}}, "additionalPrinterColumns": columns, "schema": tree{"openAPIV3Schema": root}}},
		},
	}
}

// status makes the schema of the status: servers have their own fields, and tools and entries the elements of servers.
func (r resource) status(g generator) tree {
	status := g.structure(reflect.TypeFor[object.Status]())
	status["description"] = "What became of the object."
	listMap(status, "conditions", "type")
	properties := status["properties"].(tree)
	if r.kind == object.Server {
		delete(properties, "servers")
		return status
	}
	delete(properties, "path")
	delete(properties, "lease")
	listMap(status, "servers", "name")
	listMap(properties["servers"].(tree)["items"].(tree), "conditions", "type")
	return status
}

// listMap makes a list a map keyed by a field of its entries: the API server refuses duplicates.
func listMap(structure tree, list, key string) {
	l := structure["properties"].(tree)[list].(tree)
	l["x-kubernetes-list-type"], l["x-kubernetes-list-map-keys"] = "map", []string{key}
}
