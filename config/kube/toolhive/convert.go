package toolhive

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// File is a file of manifests.
type File struct {
	Name string
	Data []byte
}

// Note is a remark about a field of a manifest.
type Note struct {
	diag.Pos
	// Object is the kind and the name, Path the path of the field.
	Object, Path string
	Text         string
}

// String formats the note like a compiler message: file:line:column: text.
func (n Note) String() string {
	parts := []string{n.Pos.String()}
	for _, part := range []string{n.Object, n.Path} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(append(parts, n.Text), ": ")
}

// Conversion is the result of Convert.
type Conversion struct {
	// Manifests are the converted objects, in the order of the files; empty if Lost is not.
	Manifests []byte
	// Notes are about fields that are not supported, in the order of the files.
	Notes []Note
	// Lost are the reasons not to convert: authentication or authorization that would be lost, and documents that cannot be read.
	Lost []Note
}

// manifest is one of the documents of the files.
type manifest struct {
	*thing
	doc     *document.Document
	version string
	labels  map[string]string
	json    json.RawMessage
}

// converter is the state of one Convert.
type converter struct {
	Conversion
	manifests []*manifest
	sets      map[string]Set // by namespace
	servers   []*mapping     // of all manifests that are servers
	names     map[string]string
}

// Convert translates manifests of ToolHive's objects into manifests of ours. Backends are made of the objects in the files,
// with the addresses that ToolHive's operator gives them.
func Convert(files []File) *Conversion {
	c := &converter{sets: map[string]Set{}, names: map[string]string{}}
	for _, f := range files {
		c.read(f)
	}
	ours := map[*manifest]tree{}
	for _, m := range c.manifests { // servers first: their outgoingAuth decides which backends can be called
		if m.kind == server {
			ours[m] = c.server(m)
		}
	}
	var out [][]byte
	for _, m := range c.manifests {
		if m.kind != server {
			ours[m] = c.other(m)
		}
		if ours[m] != nil {
			out = append(out, c.write(m, ours[m]))
		}
	}
	slices.SortStableFunc(c.Notes, inOrder(files))
	slices.SortStableFunc(c.Lost, inOrder(files))
	if len(c.Lost) == 0 {
		c.Manifests = bytes.Join(out, []byte("---\n"))
	}
	return &c.Conversion
}

// inOrder compares notes by file and position.
func inOrder(files []File) func(a, b Note) int {
	at := map[string]int{}
	for i, f := range files {
		at[f.Name] = i
	}
	return func(a, b Note) int {
		return cmp.Or(cmp.Compare(at[a.File], at[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	}
}

// read reads the documents of a file.
func (c *converter) read(f File) {
	docs, problems := document.Many(f.Name, f.Data, config.MaxFile, config.ObjectRules())
	for _, d := range items(docs) {
		m, err := readManifest(d)
		problems = append(problems, d.Problems...)
		switch {
		case err != nil:
			c.Lost = append(c.Lost, Note{Pos: d.Place(""), Text: err.Error()})
		case !strings.HasPrefix(m.version, object.ToolHiveGroup+"/"):
			c.Notes = append(c.Notes, Note{Pos: d.Place(""), Object: m.String(), Text: "none of ToolHive's objects: keep it as it is"})
		default:
			c.manifests = append(c.manifests, m)
			c.set(m.namespace).Put(m.kind, m.name, m.json)
		}
	}
	for _, p := range problems {
		c.Lost = append(c.Lost, Note{Pos: p.Pos, Path: p.Path, Text: p.Message})
	}
}

// items returns the objects of documents, with Lists expanded.
func items(docs []*document.Document) (all []*document.Document) {
	for _, d := range docs {
		var kind string
		if err := json.Unmarshal(orEmpty(d.MemberJSON("kind")), &kind); err == nil && kind == "List" {
			all = append(all, d.Items("items")...)
			continue
		}
		all = append(all, d)
	}
	return all
}

// readManifest decodes a document as an object.
func readManifest(d *document.Document) (*manifest, error) {
	if !d.IsMapping() {
		return nil, errors.New("want an object with apiVersion, kind, metadata and spec")
	}
	m := &manifest{doc: d}
	var kind string
	for name, into := range map[string]*string{"apiVersion": &m.version, "kind": &kind} {
		if err := json.Unmarshal(d.MemberJSON(name), into); err != nil || *into == "" {
			return nil, fmt.Errorf("%s is missing", name)
		}
	}
	meta := d.MemberJSON("metadata")
	if len(meta) == 0 {
		return nil, fmt.Errorf("%s: metadata is missing", kind)
	}
	var more struct {
		Labels map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(meta, &more); err != nil {
		return nil, fmt.Errorf("%s: metadata.labels: %v", kind, err)
	}
	m.labels = more.Labels
	m.json = bytes.Join([][]byte{[]byte(`{"metadata":`), meta, []byte(`,"spec":`), orEmpty(d.MemberJSON("spec")), []byte(`}`)}, nil)
	var err error
	if m.thing, err = parse(kind, m.json); err != nil {
		return nil, fmt.Errorf("%s: %v", kind, err)
	}
	if m.name == "" {
		return nil, fmt.Errorf("%s: metadata has no name", kind)
	}
	return m, nil
}

func orEmpty(data []byte) []byte {
	if len(data) == 0 {
		return []byte("{}")
	}
	return data
}

func (c *converter) set(namespace string) Set {
	if c.sets[namespace] == nil {
		c.sets[namespace] = Set{}
	}
	return c.sets[namespace]
}

// note adds the unsupported fields of a mapping to the notes, and its problem to Lost.
func (c *converter) note(m *mapping) {
	for _, p := range m.ignored {
		c.Notes = append(c.Notes, c.at(p, "not carried"))
	}
	if m.problem.Reason != "" {
		_, text, _ := strings.Cut(m.problem.Message, m.problemAt.path+": ")
		c.Lost = append(c.Lost, c.at(m.problemAt, text))
	}
}

// at makes a note about a place in one of the manifests.
func (c *converter) at(p place, text string) Note {
	n := Note{Object: p.of.String(), Path: p.path, Text: text}
	for _, m := range c.manifests {
		if m.kind == p.of.kind && m.name == p.of.name && m.namespace == p.of.namespace {
			n.Pos = m.doc.Place(p.path)
		}
	}
	return n
}

// server converts the spec of a server.
func (c *converter) server(m *manifest) tree {
	to := &mapping{set: c.set(m.namespace), of: m.thing}
	spec := to.server()
	settings, _ := spec["config"].(tree)
	if settings["name"] == m.name {
		delete(settings, "name") // the default
	}
	c.workflows(m, settings)
	decodeSpec[object.ServerSpec](to, spec)
	c.issuer(to, spec)
	c.note(to)
	c.servers = append(c.servers, to)
	return spec
}

// issuer refuses a server whose MCPOIDCConfig cannot be used. One that is in none of the files is assumed to be in the
// cluster, where the status of the server reports its problems.
func (c *converter) issuer(to *mapping, spec tree) {
	in, _ := spec["incomingAuth"].(tree)
	ref, _ := in["oidcConfigRef"].(tree)
	name, _ := ref["name"].(string)
	if t, ok := to.set.read(oidc, name); ok {
		if problem := issuer(t).Problem; problem.Reason != "" {
			to.refuse(object.ReasonAuthNotCarried, "spec.incomingAuth.oidcConfigRef", "%s", problem.Message)
		}
	}
}

// other converts the spec of an object that is not a server; nil if the kind has no counterpart.
func (c *converter) other(m *manifest) tree {
	switch m.kind {
	case mcpServer, proxy, entry:
		return c.backend(m)
	case composite:
		spec := maps.Clone(m.spec)
		c.workflow(m, spec, "spec")
		return spec
	case group, tools: // a group is only a name, and servers include their tool configs
		return nil
	case oidc:
		c.Notes = append(c.Notes, Note{Pos: m.doc.Place(""), Object: m.String(), Text: "read as it is by servers that name it: keep it and its definition"})
		return nil
	}
	c.Notes = append(c.Notes, Note{Pos: m.doc.Place(""), Object: m.String(), Text: "not carried"})
	return nil
}

// backend converts a member of a group into the spec of an MCPServerEntry; nil if it is left out.
func (c *converter) backend(m *manifest) tree {
	leave := func(path, format string, args ...any) tree {
		c.Notes = append(c.Notes, c.at(place{m.thing, path}, fmt.Sprintf(format, args...)))
		return nil
	}
	if m.group() == "" {
		return leave("spec.groupRef", "names no group: left out")
	}
	for _, s := range c.servers {
		if s.group == m.group() && s.of.namespace == m.namespace && s.leftOut(m.name) != "" {
			return leave("metadata.name", "left out, as %s says in %s how to call it, which is not carried", s.of, s.leftOut(m.name))
		}
	}
	to := &mapping{set: c.set(m.namespace), of: m.thing}
	spec := to.entry(inCluster)
	if to.problem.Reason == "" {
		decodeSpec[object.EntrySpec](to, spec)
	}
	if first, clash := c.names[m.namespace+"/"+backendName(m.name)]; clash {
		to.refuse(object.ReasonNameConflict, "metadata.name", "%s is the backend %s, too; left out", first, backendName(m.name))
	}
	if to.problem.Reason != "" {
		_, text, _ := strings.Cut(to.problem.Message, to.problemAt.path+": ")
		return leave(to.problemAt.path, "%s", text)
	}
	c.note(to)
	c.names[m.namespace+"/"+backendName(m.name)] = m.String()
	return spec
}

// inCluster is the URL at which ToolHive's operator makes an object reachable.
func inCluster(t *thing) string {
	if t.kind == entry {
		return inPlace(t)
	}
	port := "8080"
	for _, name := range []string{"proxyPort", "port"} {
		if n, ok := t.spec[name].(json.Number); ok {
			port = n.String()
			break
		}
	}
	host, path := "mcp-"+t.name+"-proxy", "/mcp"
	if transport(t) == "sse" {
		path = "/sse"
	}
	if t.kind == proxy {
		host, path = "mcp-"+t.name+"-remote-proxy", ""
	}
	if t.namespace != "" {
		host += "." + t.namespace + ".svc.cluster.local"
	}
	return "http://" + host + ":" + port + path
}

// workflows corrects the inline composite tools of a server.
func (c *converter) workflows(m *manifest, settings tree) {
	for i, w := range list(settings["compositeTools"]) {
		if w, ok := w.(tree); ok {
			c.workflow(m, w, document.IndexPath("spec.config.compositeTools", i))
		}
	}
}

// workflow removes fields that ToolHive's guides show but its engine does not implement, and notes what to write instead.
func (c *converter) workflow(m *manifest, w tree, path string) {
	drop := func(path, instead string) {
		c.Notes = append(c.Notes, c.at(place{m.thing, path}, "not carried; "+instead))
	}
	if mode, ok := w["failureMode"]; ok {
		delete(w, "failureMode")
		instead := "that a failure ends the workflow is the default"
		if mode != "abort" {
			instead = "write onError: {action: continue} at the steps that may fail"
		}
		drop(path+".failureMode", instead)
	}
	for i, step := range list(w["steps"]) {
		step, _ := step.(tree)
		on, _ := step["onError"].(tree)
		if times, ok := on["maxRetries"]; ok {
			delete(on, "maxRetries")
			drop(document.IndexPath(path+".steps", i)+".onError.maxRetries", fmt.Sprintf("write onError: {action: retry, retryCount: %v}", times))
		}
	}
}

// ourKind is the kind that a kind of ToolHive's is converted to.
func ourKind(kind string) string {
	switch kind {
	case mcpServer, proxy:
		return entry
	}
	return kind // the same name
}

// write formats a manifest of ours as YAML.
func (c *converter) write(m *manifest, spec tree) []byte {
	name := m.name
	if ourKind(m.kind) == entry {
		name = backendName(name)
	}
	meta := map[string]any{"name": name}
	if m.namespace != "" {
		meta["namespace"] = m.namespace
	}
	if len(m.labels) > 0 {
		meta["labels"] = m.labels
	}
	text, err := yaml.JSONToYAML(mustJSON(map[string]any{
		"apiVersion": object.APIVersion, "kind": ourKind(m.kind), "metadata": meta, "spec": spec,
	}))
	if err != nil {
		panic(err) // JSON is YAML
	}
	return text
}
