package crd_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/crd"
	"github.com/vmcp-dev/vmcp/config/kube/object"
)

var update = flag.Bool("update", false, "rewrite the definitions and the reference page")

// folders are where the definitions are checked in: a chart can only contain files in its own folder.
var folders = []string{"../../../deploy/crds", "../../../deploy/chart/crds-source"}

// maxSize bounds a definition: kubectl apply keeps a copy of it in an annotation.
const maxSize = 100 << 10

func TestGenerated(t *testing.T) {
	files, err := crd.Files(comments(t).describe)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if *update {
			write(t, folder, files)
		}
		compare(t, folder, files)
	}
	for name, text := range files {
		var definition map[string]any
		if err := yaml.Unmarshal(text, &definition); err != nil {
			t.Fatal(err)
		}
		forbid(t, name, definition, false)
		if len(text) > maxSize {
			t.Errorf("%s has %d bytes, want at most %d", name, len(text), maxSize)
		}
	}
}

func write(t *testing.T, folder string, files map[string][]byte) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// compare compares the checked-in files with the generated ones.
func compare(t *testing.T, folder string, files map[string][]byte) {
	t.Helper()
	there, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(there) != len(files) || len(files) != len(object.Kinds) {
		t.Errorf("%s has %d files and %d are generated, want one for each of %d kinds (%v)", folder, len(there), len(files), len(object.Kinds), err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is stale, run go generate ./config/kube/... (-want +got):\n%s", name, cmp.Diff(string(want), string(got)))
		}
	}
}

// page is the reference of the fields.
const page = "../../../docs/reference/kubernetes.md"

func TestReference(t *testing.T) {
	want := crd.Reference(comments(t).describe)
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is stale, run go generate ./config/kube/...: %v\n%s", page, err, cmp.Diff(string(want), string(got)))
	}
	for _, field := range []string{"spec.config.scriptedTools[].scriptFrom.configMapKeyRef.key", "spec.config.outgoingAuth.default.headerInjection.valueSecretRef.name", "spec.headerForward.addHeadersFromSecret[].valueSecretRef.name", "status.conditions[].reason"} {
		if !bytes.Contains(got, []byte("| `"+field+"` |")) {
			t.Errorf("%s does not tell of %s", page, field)
		}
	}
}

// forbid checks that a schema has no defaults, which an API server would store, and nothing that it would refuse.
func forbid(t *testing.T, at string, value any, properties bool) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			forbid(t, at, item, false)
		}
	case map[string]any:
		for name, member := range v {
			if !properties && (name == "$ref" || name == "default" || name == "additionalProperties" && member == false) {
				t.Errorf("%s.%s: want none", at, name)
			}
			forbid(t, at+"."+name, member, !properties && name == "properties")
		}
	}
}

// TestEveryFieldIsDecided: every field of the configuration declares whether objects have it.
func TestEveryFieldIsDecided(t *testing.T) {
	said := 0
	seen := map[reflect.Type]bool{}
	var look func(reflect.Type)
	look = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			look(typ.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if seen[typ] || typ == reflect.TypeFor[config.Raw]() || typ == reflect.TypeFor[config.CompositeTool]() {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "-" {
				continue
			}
			decision := f.Tag.Get("crd")
			if f.Anonymous {
				decision = "yes"
			}
			switch {
			case decision != "yes" && decision != "no":
				t.Errorf("%s.%s: want the tag crd, yes or no: may an object of Kubernetes say it, whose author need not be the cluster's admin?", typ, f.Name)
			case decision == "yes":
				said++
				if forbidden(name) && name != "profiles" { // profiles are not files
					t.Errorf("%s.%s names a file, a variable or an address: no object may say it", typ, f.Name)
				}
				look(f.Type)
			}
		}
	}
	look(reflect.TypeFor[object.ServerSpec]())
	look(reflect.TypeFor[object.EntrySpec]())
	look(reflect.TypeFor[object.ScriptedSpec]())
	look(reflect.TypeFor[object.Status]())
	if said < 150 {
		t.Errorf("%d fields were looked at: too few", said)
	}
}

// forbidden reports whether no object may have a field of that name.
func forbidden(name string) bool {
	lower := strings.ToLower(name)
	for _, end := range []string{"file", "files", "env", "dir"} {
		if strings.HasSuffix(lower, end) {
			return true
		}
	}
	return slices.Contains([]string{"listen", "command", "args", "cwd", "namespace", "cert", "ca"}, lower)
}

// doc are the comments of fields, by type and field.
type doc map[string]string

func comments(t *testing.T) doc {
	t.Helper()
	d := doc{}
	for _, pattern := range []string{"../../*.go", "../object/*.go", "*.go", "../../../internal/limits/limits.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				d.read(t, name)
			}
		}
	}
	return d
}

func (d doc) read(t *testing.T, name string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		structure, ok := spec.Type.(*ast.StructType)
		if !ok {
			return false
		}
		for _, f := range structure.Fields.List {
			for _, field := range f.Names {
				d[spec.Name.Name+"."+field.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
			}
		}
		return false
	})
}

func (d doc) describe(in reflect.Type, name string) string {
	text := strings.TrimPrefix(d[in.Name()+"."+name], name+" ")
	for _, verb := range []string{"is ", "are "} {
		text = strings.TrimPrefix(text, verb)
	}
	text = strings.ReplaceAll(text, " ${NAME} is replaced from the environment, $${ stays ${.", "")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
