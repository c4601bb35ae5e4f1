package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/config/internal/document"
)

// TestGenerated keeps the schema and the reference page equal to the structs and
// their comments; -update writes them.
func TestGenerated(t *testing.T) {
	g := newGenerator(t)
	for path, want := range map[string][]byte{
		"schema.json":                 g.schema(),
		"../docs/reference/config.md": g.reference(),
	} {
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale, run go generate ./config (-want +got):\n%s", path, diff)
		}
	}
}

// Editors and the parser agree on the files of testdata where a schema can tell.
func TestSchemaFitsTheParser(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("config.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	for file, valid := range map[string]bool{
		"good/full.yaml": true, "good/anchors.yaml": true, "good/windows.yaml": true,
		"bad/fields.yaml": false, "bad/list.yaml": false, "bad/aggregation.yaml": false,
	} {
		data, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := yaml.Unmarshal(data, &v); err != nil && valid {
			t.Fatal(err)
		}
		text, err := json.Marshal(v)
		if err != nil {
			continue // keys that are not strings: never valid
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(instance); (err == nil) != valid {
			t.Errorf("%s: schema says %v, want valid = %v", file, err, valid)
		}
	}
}

// generator holds the comments of the package's types.
type generator struct {
	types  map[string]string            // type → comment
	fields map[string]map[string]string // type → field → comment
}

func newGenerator(t *testing.T) *generator {
	t.Helper()
	g := &generator{types: map[string]string{}, fields: map[string]map[string]string{}}
	g.read(t, "config", "*.go")
	g.read(t, "limits", "../internal/limits/limits.go")
	g.read(t, "telemetry", "telemetry/telemetry.go")
	g.read(t, "durable", "durable/durable.go")
	g.read(t, "replicas", "replicas/replicas.go")
	return g
}

// read reads the comments of the types in files of a package.
func (g *generator) read(t *testing.T, pkgName, pattern string) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	pkg, err := doc.NewFromFiles(fset, files, pkgName)
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range pkg.Types {
		g.types[typ.Name] = oneLine(typ.Doc)
		g.fields[typ.Name] = map[string]string{}
		structure, ok := typ.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range structure.Fields.List {
			for _, name := range f.Names {
				g.fields[typ.Name][name.Name] = oneLine(f.Doc.Text())
			}
		}
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// about is the comment of a field, without the Go name that it begins with.
func (g *generator) about(t reflect.Type, f document.Field) string {
	goName := t.FieldByIndex(f.Index).Name
	for _, i := range f.Index[:len(f.Index)-1] {
		t = t.Field(i).Type
	}
	return predicate(goName, g.fields[t.Name()][goName])
}

// predicate is a comment without the name that it begins with.
func predicate(name, comment string) string {
	text := strings.TrimPrefix(comment, name+" ")
	for _, verb := range []string{"is ", "are "} {
		text = strings.TrimPrefix(text, verb)
	}
	if text == "" {
		panic("no comment: " + name)
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

type object = map[string]any // written with sorted keys

func (g *generator) schema() []byte {
	root := g.structure(reflect.TypeFor[Config]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "https://raw.githubusercontent.com/vmcp-dev/vmcp/main/config/schema.json"
	root["title"] = "vmcp.yaml"
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(text, '\n')
}

func (g *generator) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range document.Fields(t) {
		p := g.value(t.FieldByIndex(f.Index).Type)
		p["description"] = g.about(t, f)
		if f.Enum != nil {
			p["enum"] = f.Enum
		}
		if f.Default != "" {
			p["default"] = defaultOf(t.FieldByIndex(f.Index).Type, f)
		}
		properties[f.Name] = p
		if f.Required {
			required = append(required, f.Name)
		}
	}
	o := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

func defaultOf(t reflect.Type, f document.Field) any {
	if word := wordFor(t); t.Kind() == reflect.String || word != "number" && word != "boolean" {
		return f.Default
	}
	return json.RawMessage(f.Default)
}

func (g *generator) value(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[Raw](), reflect.TypeFor[CompositeTool]():
		return object{"type": "object"}
	case reflect.TypeFor[Duration]():
		return object{"type": "string", "pattern": `^([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^[0-9]+d$`}
	case reflect.TypeFor[Bytes]():
		return object{"type": "string", "pattern": `^[0-9]+ *(B|KB|MB|GB)$`}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.value(t.Elem())
	case reflect.Struct:
		return g.structure(t)
	case reflect.Slice:
		return object{"type": "array", "items": g.value(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": g.value(t.Elem())}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	default:
		return object{"type": "integer", "minimum": 1}
	}
}

// reference is the reference page: one section per struct, in reading order.
func (g *generator) reference() []byte {
	var b bytes.Buffer
	b.WriteString("# Configuration reference\n\n" +
		"What `vmcp.yaml` may say. This page is generated from the types of package `config`;\n" +
		"`vmcp schema` prints the same as a JSON Schema for editors.\n")
	g.section(&b, "vmcp.yaml", reflect.TypeFor[Config](), map[reflect.Type]bool{})
	return b.Bytes()
}

func (g *generator) section(b *bytes.Buffer, title string, t reflect.Type, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| Field | Type | Default | |\n|---|---|---|---|\n", title, predicate(t.Name(), g.types[t.Name()]))
	for _, f := range document.Fields(t) {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.Name, g.typeCell(t, f), defaultCell(f), strings.ReplaceAll(g.about(t, f), "|", `\|`))
	}
	for _, f := range document.Fields(t) {
		if inner := structOf(t.FieldByIndex(f.Index).Type); inner != nil {
			g.section(b, sectionTitle(title, f.Name, t.FieldByIndex(f.Index).Type), inner, seen)
		}
	}
}

func sectionTitle(parent, name string, t reflect.Type) string {
	if parent == "vmcp.yaml" {
		parent = ""
	}
	switch t.Kind() {
	case reflect.Slice:
		name += "[]"
	case reflect.Map:
		name += ".NAME"
	}
	return strings.TrimPrefix(parent+"."+name, ".")
}

// structOf is the struct of this package in a field's type: itself, behind a pointer, or in a list or map.
func structOf(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return structOf(t.Elem())
	case reflect.Struct:
		if t != reflect.TypeFor[Raw]() && t != reflect.TypeFor[CompositeTool]() {
			return t
		}
	}
	return nil
}

func (g *generator) typeCell(t reflect.Type, f document.Field) string {
	if f.Enum != nil {
		return "`" + strings.Join(f.Enum, "`, `") + "`"
	}
	return wordFor(t.FieldByIndex(f.Index).Type)
}

func defaultCell(f document.Field) string {
	switch {
	case f.Required:
		return "required"
	case f.Default != "":
		return "`" + f.Default + "`"
	}
	return ""
}

func wordFor(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Raw]():
		return "JSON Schema"
	case reflect.TypeFor[Duration]():
		return "duration"
	case reflect.TypeFor[Bytes]():
		return "size"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wordFor(t.Elem())
	case reflect.Slice:
		return "list of " + wordFor(t.Elem())
	case reflect.Map:
		return "name → " + wordFor(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Struct:
		return "mapping"
	default:
		return "number"
	}
}
