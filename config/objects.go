package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// NameRef names an object of the same namespace.
type NameRef struct {
	// Name is the name of the object.
	Name string `json:"name" crd:"yes" max:"253"`
}

// KeyRef names a value of a ConfigMap or Secret of the same namespace.
type KeyRef struct {
	// Name is the name of the ConfigMap or Secret.
	Name string `json:"name" crd:"yes" max:"253"`
	// Key is the key of the value in it.
	Key string `json:"key" crd:"yes" max:"253"`
}

// TextSource says where a text is that an object does not hold itself.
type TextSource struct {
	// ConfigMapKeyRef names a key of a ConfigMap.
	ConfigMapKeyRef KeyRef `json:"configMapKeyRef" crd:"yes"`
}

// Bundle are texts that belong together, as those of a ConfigMap do.
type Bundle struct {
	// Name is the name of the ConfigMap, File the key of the script itself.
	Name, File string
	// Texts are the texts by their keys. They do not change.
	Texts map[string]string
}

// ObjectRules are the rules of reading a document into the parts of a Config that an object of Kubernetes can
// say: the fields whose tag crd says yes. That is nothing that names a file, a variable of the environment or an
// address to listen on, and nothing of the process.
func ObjectRules() document.Rules {
	r := strict
	r.Fields, r.Field = document.ObjectFields, notInObjects
	return r
}

// elsewhere says where the admin of a cluster says what a field of the file says, by the name of the field.
var elsewhere = map[string]string{
	"backends":         "an object of kind MCPServerEntry with the same groupRef is a backend",
	"incomingAuth":     "it is spec.incomingAuth",
	"scripts":          "scriptedTools and scriptedToolRefs name scripts",
	"scriptFile":       "scriptFrom names a ConfigMap",
	"path":             "sourceFrom names a ConfigMap",
	"headerValueEnv":   "valueSecretRef names a Secret",
	"headerValueFile":  "valueSecretRef names a Secret",
	"clientSecret":     "clientSecretRef names a Secret",
	"clientSecretEnv":  "clientSecretRef names a Secret",
	"clientSecretFile": "clientSecretRef names a Secret",
}

// notInObjects says why an object refuses a field that a file may have; "" for what is no field at all.
func notInObjects(t reflect.Type, name string) string {
	if reason := refusedField(t, name); reason != "" {
		return "unknown field: " + reason
	}
	for _, f := range document.Fields(t) {
		if f.Name != name {
			continue
		}
		if where := elsewhere[name]; where != "" {
			return "unknown field: an object cannot say it; " + where
		}
		return "unknown field: an object cannot say it, it is of the whole process"
	}
	return ""
}

// KeyPath is the path of a member of a mapping.
func KeyPath(path, key string) string { return document.KeyPath(path, key) }

// CheckObject checks a Config that was read from the document of an object, where it stands at spec.config.
func CheckObject(d *document.Document, c *Config) {
	v := &validator{Document: d, below: "spec.config."}
	v.rateLimiting(&c.RateLimiting)
	v.outgoing(c)
	v.aggregation(c)
	v.profiles(c)
	v.tools(c)
	v.libraries(c.Libraries)
	v.refs("scriptedToolRefs", c.ScriptedToolRefs)
	v.refs("compositeToolRefs", c.CompositeToolRefs)
}

// CheckObjectTool checks a scripted tool that is the spec of an object.
func CheckObjectTool(d *document.Document, t *ScriptedTool) {
	v := &validator{Document: d, below: "spec"}
	v.ownName(map[string]string{}, "", t.Name)
	v.scripted(t, "")
}

// CheckBackend checks what an object says of a backend: its URL, which stands at url, and its headers, by where
// their names stand.
func CheckBackend(d *document.Document, url, address string, headers map[string]string) {
	v := &validator{Document: d}
	v.url(url, address)
	seen := map[string]string{}
	for _, at := range keys(headers) {
		name := headers[at]
		lower := strings.ToLower(name)
		switch first, twice := seen[lower]; {
		case !headerName.MatchString(name):
			v.report(at, "%q is not a header's name", name)
		case twice:
			v.report(at, "the same header as %s", first)
		case slices.Contains(ownHeaders, lower):
			v.report(at, "the protocol sets this header itself; remove it")
		}
		seen[lower] = name
	}
}

// refs checks a list of references.
func (v *validator) refs(list string, refs []NameRef) {
	for i, r := range refs {
		if r.Name == "" {
			v.report(document.IndexPath(list, i)+".name", "want the name of an object")
		} else if first := slices.Index(refs, r); first < i {
			v.report(document.IndexPath(list, i), "duplicate value: %s[%d] names %q already", list, first, r.Name)
		}
	}
}

// secretRef checks a reference to a Secret; instead is the field that may stand in its place.
func (v *validator) secretRef(at, name string, ref *KeyRef, instead string, required bool) {
	given := instead != "" && v.set(at+"."+instead)
	if ref != nil {
		v.keyRef(at+"."+name, ref)
	}
	switch {
	case ref != nil && given:
		v.report(at+"."+name, "want exactly one of %s and %s", name, instead)
	case ref == nil && !given && required && instead != "":
		v.report(at, "want exactly one of %s and %s", name, instead)
	case ref == nil && !given && required:
		v.report(at, "want %s, which names a Secret", name)
	}
}

// textSource checks a reference to a ConfigMap.
func (v *validator) textSource(at string, s *TextSource) {
	if s != nil {
		v.keyRef(at+".configMapKeyRef", &s.ConfigMapKeyRef)
	}
}

// keyRef checks that a reference names something.
func (v *validator) keyRef(at string, ref *KeyRef) {
	if ref.Name == "" {
		v.report(at+".name", "want a name")
	}
	if ref.Key == "" {
		v.report(at+".key", "want a key")
	}
}

// Hide makes further values secrets of the configuration.
func (c *Config) Hide(values ...string) { c.expanded = append(c.expanded, values...) }

// SetOrigin says where the text at path stands.
func (c *Config) SetOrigin(path string, o diag.Origin) {
	if c.origins == nil {
		c.origins = map[string]diag.Origin{}
	}
	c.origins[path] = o
}

// IndexPath is the path of an entry of a list.
func IndexPath(path string, i int) string { return document.IndexPath(path, i) }

// Fork is a copy of c that may get fields and origins of its own. What they point to is shared.
func (c *Config) Fork() *Config {
	out := *c
	out.origins, out.expanded = maps.Clone(c.origins), slices.Clip(c.expanded)
	return &out
}
