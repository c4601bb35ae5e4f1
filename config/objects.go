package config

import (
	"reflect"

	"github.com/vmcp-dev/vmcp/config/internal/document"
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
