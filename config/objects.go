package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// NameRef is a reference to an object of the same namespace.
type NameRef struct {
	// Name is the name of the object.
	Name string `json:"name" crd:"yes" max:"253"`
}

// KeyRef is a reference to a value of a ConfigMap or Secret of the same namespace.
type KeyRef struct {
	// Name is the name of the ConfigMap or Secret.
	Name string `json:"name" crd:"yes" max:"253"`
	// Key is the key of the value in it.
	Key string `json:"key" crd:"yes" max:"253"`
}

// TextSource is a reference to a source that is not in the object itself.
type TextSource struct {
	// ConfigMapKeyRef is a key of a ConfigMap.
	ConfigMapKeyRef KeyRef `json:"configMapKeyRef" crd:"yes"`
}

// Bundle is the content of a ConfigMap: sources that can load each other.
type Bundle struct {
	// Name is the name of the ConfigMap, File the key of the script itself.
	Name, File string
	// Texts are the sources by key. They are read-only.
	Texts map[string]string
}

// ObjectRules are the rules of decoding a document into the parts of a Config that a Kubernetes object may set:
// the fields whose tag crd is yes. Excluded are files, environment variables, addresses to listen on, and settings
// of the whole process.
func ObjectRules() document.Rules {
	r := strict
	r.Fields, r.Field = document.ObjectFields, notInObjects
	return r
}

// elsewhere is what replaces a field of the file in an object, by the name of the field.
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

// notInObjects returns why an object refuses a field that a file may have; "" if the file has no such field.
func notInObjects(t reflect.Type, name string) string {
	if reason := refusedField(t, name); reason != "" {
		return "unknown field: " + reason
	}
	for _, f := range document.Fields(t) {
		if f.Name != name {
			continue
		}
		if where := elsewhere[name]; where != "" {
			return "unknown field: an object cannot set it; " + where
		}
		return "unknown field: an object cannot set it: it belongs to the process"
	}
	return ""
}

// KeyPath is the path of a member of a mapping.
func KeyPath(path, key string) string { return document.KeyPath(path, key) }

// CheckObject checks a Config that was decoded from spec.config of an object.
func CheckObject(d *document.Document, c *Config) {
	v := &validator{Validator{Document: d, Below: "spec.config."}}
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
	v := &validator{Validator{Document: d, Below: "spec"}}
	v.ownName(map[string]string{}, "", t.Name)
	v.scripted(t, "")
}

// CheckBackend checks a backend of an object: address is its URL, whose path is url; headers are the names of its
// headers by their paths.
func CheckBackend(d *document.Document, url, address string, headers map[string]string) {
	v := &validator{Validator{Document: d}}
	v.URL(url, address)
	seen := map[string]string{}
	for _, at := range keys(headers) {
		name := headers[at]
		lower := strings.ToLower(name)
		switch first, twice := seen[lower]; {
		case !headerName.MatchString(name):
			v.Report(at, "%q is not a header's name", name)
		case twice:
			v.Report(at, "the same header as %s", first)
		case slices.Contains(ownHeaders, lower):
			v.Report(at, "the protocol sets this header itself; remove it")
		}
		seen[lower] = name
	}
}

// refs checks a list of references.
func (v *validator) refs(list string, refs []NameRef) {
	for i, r := range refs {
		if r.Name == "" {
			v.Report(document.IndexPath(list, i)+".name", "want the name of an object")
		} else if first := slices.Index(refs, r); first < i {
			v.Report(document.IndexPath(list, i), "duplicate value: %s[%d] names %q already", list, first, r.Name)
		}
	}
}

// secretRef checks a reference to a Secret; instead is the field that is allowed in its place.
func (v *validator) secretRef(at, name string, ref *KeyRef, instead string, required bool) {
	given := instead != "" && v.Set(at+"."+instead)
	if ref != nil {
		v.keyRef(at+"."+name, ref)
	}
	switch {
	case ref != nil && given:
		v.Report(at+"."+name, "want exactly one of %s and %s", name, instead)
	case ref == nil && !given && required && instead != "":
		v.Report(at, "want exactly one of %s and %s", name, instead)
	case ref == nil && !given && required:
		v.Report(at, "want %s, which names a Secret", name)
	}
}

// textSource checks a reference to a ConfigMap.
func (v *validator) textSource(at string, s *TextSource) {
	if s != nil {
		v.keyRef(at+".configMapKeyRef", &s.ConfigMapKeyRef)
	}
}

// keyRef checks that a reference has a name and a key.
func (v *validator) keyRef(at string, ref *KeyRef) {
	if ref.Name == "" {
		v.Report(at+".name", "want a name")
	}
	if ref.Key == "" {
		v.Report(at+".key", "want a key")
	}
}

// Hide adds values to the secrets of the configuration.
func (c *Config) Hide(values ...string) { c.expanded = append(c.expanded, values...) }

// SetOrigin sets the origin of the string at path.
func (c *Config) SetOrigin(path string, o diag.Origin) {
	if c.origins == nil {
		c.origins = map[string]diag.Origin{}
	}
	c.origins[path] = o
}

// IndexPath is the path of an entry of a list.
func IndexPath(path string, i int) string { return document.IndexPath(path, i) }

// Fork returns a shallow copy of c whose fields and origins can be changed. What they point to is shared.
func (c *Config) Fork() *Config {
	out := *c
	out.origins, out.expanded = maps.Clone(c.origins), slices.Clip(c.expanded)
	return &out
}
