package object

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
)

// Manifest is one object of a file of manifests.
type Manifest struct {
	APIVersion, Kind string
	// Object is an *Object of one of the four kinds, a *ConfigMap or a *Secret; nil if the kind is not used here or the
	// object cannot be decoded.
	Object any
	// Pos is the beginning of the document.
	Pos diag.Pos
}

// IsManifest reports whether a file holds manifests: one of its documents has apiVersion or kind.
func IsManifest(data []byte) bool {
	docs, _ := document.Many("", data, config.MaxFile, config.ObjectRules())
	for _, d := range docs {
		if names := d.Members(); slices.Contains(names, "apiVersion") || slices.Contains(names, "kind") {
			return true
		}
	}
	return false
}

// Read decodes a file of manifests. It returns all problems: of the file, its documents and their specs.
func Read(file string, data []byte) ([]Manifest, diag.Problems) {
	docs, problems := document.Many(file, data, config.MaxFile, config.ObjectRules())
	var all []Manifest
	for _, d := range docs {
		for _, one := range items(d) {
			m := manifest(one)
			all = append(all, m)
			problems = append(problems, one.Problems...)
		}
	}
	return all, problems
}

// items returns the objects of a document: itself, or the items of a List.
func items(d *document.Document) []*document.Document {
	if kind := member(d, "kind"); kind != "List" {
		return []*document.Document{d}
	}
	return d.Items("items")
}

// member returns a member of a document that is a string; "" if there is none.
func member(d *document.Document, name string) (s string) {
	if err := json.Unmarshal(d.MemberJSON(name), &s); err != nil {
		return ""
	}
	return s
}

// manifest decodes one document.
func manifest(d *document.Document) Manifest {
	m := Manifest{APIVersion: member(d, "apiVersion"), Kind: member(d, "kind"), Pos: d.Place("")}
	group, _, _ := strings.Cut(m.APIVersion, "/")
	switch {
	case !d.IsMapping():
		d.Report("", "want an object with apiVersion, kind, metadata and spec")
	case m.APIVersion == "":
		d.Report("apiVersion", "missing; want %s, or that of a ConfigMap or Secret, v1", APIVersion)
	case group == ToolHiveGroup:
		d.Report("apiVersion", "an object of ToolHive; use vmcp convert --from toolhive to make one of ours of it")
	case group == Group:
		m.Object = ours(d, m.APIVersion, m.Kind)
	case m.APIVersion == "v1" && m.Kind == "ConfigMap":
		m.Object = core(d, DecodeConfigMap)
	case m.APIVersion == "v1" && m.Kind == "Secret":
		m.Object = core(d, DecodeSecret)
	}
	return m
}

// ours decodes an object of our group.
func ours(d *document.Document, version, kind string) any {
	if version != APIVersion {
		d.Report("apiVersion", "want %s, have %s", APIVersion, version)
		return nil
	}
	for _, name := range d.Members() {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "spec", "status"}, name) {
			d.Report(document.KeyPath("", name), "unknown field%s", display.Hint(name, []string{"metadata", "spec"}))
		}
	}
	switch kind {
	case Server.Name:
		return placed[ServerSpec](d)
	case Entry.Name:
		return placed[EntrySpec](d)
	case Scripted.Name:
		return placed[ScriptedSpec](d)
	case Composite.Name:
		return placed[CompositeSpec](d)
	}
	var names []string
	for _, k := range Kinds {
		names = append(names, k.Name)
	}
	d.Report("kind", "%s has no kind %q; want %s", APIVersion, kind, strings.Join(names, ", "))
	return nil
}

// placed decodes an object and keeps the positions of its values.
func placed[S Spec](d *document.Document) any {
	o := &Object[S]{}
	if err := header(d, &o.Meta); err != nil {
		d.Report("metadata", "an object needs a name: it %v", err)
		return nil
	}
	read(d, o)
	return o
}

// core decodes an object of the core group, v1.
func core[T any](d *document.Document, decode func([]byte) (*T, error)) any {
	text := new(bytes.Buffer)
	text.WriteByte('{')
	for i, name := range d.Members() {
		if i > 0 {
			text.WriteByte(',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			continue
		}
		value := d.MemberJSON(name)
		if value == nil {
			value = json.RawMessage("null")
		}
		text.Write(append(append(key, ':'), value...))
	}
	text.WriteByte('}')
	o, err := decode(text.Bytes())
	if err != nil {
		d.Report("", "%v", err)
		return nil
	}
	return o
}
