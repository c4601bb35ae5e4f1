package object

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// Problems are diag.Problems.
type Problems = diag.Problems

// Meta is the part of an object's metadata that is used.
type Meta struct {
	Name              string    `json:"name"`
	Namespace         string    `json:"namespace"`
	UID               string    `json:"uid"`
	ResourceVersion   string    `json:"resourceVersion"`
	Generation        int64     `json:"generation"`
	CreationTimestamp time.Time `json:"creationTimestamp"`
}

// Older reports whether m was created before other. Of two objects of the same second, the one whose name sorts first is older.
func (m *Meta) Older(other *Meta) bool {
	if !m.CreationTimestamp.Equal(other.CreationTimestamp) {
		return m.CreationTimestamp.Before(other.CreationTimestamp)
	}
	return m.Name < other.Name
}

// ConfigMap is the part of a ConfigMap that is used.
type ConfigMap struct {
	Meta
	Data map[string]string
}

// Secret is the part of a Secret that is used.
type Secret struct {
	Meta
	Data map[string]secret.Value
}

// text holds the positions of an object's values.
type text struct {
	places  map[string]diag.Pos
	origins map[string]diag.Origin
	file    string
}

// KindOf returns the kind whose spec is S.
func KindOf[S Spec]() Kind {
	switch any(*new(S)).(type) {
	case ServerSpec:
		return Server
	case EntrySpec:
		return Entry
	case ScriptedSpec:
		return Scripted
	}
	return Composite
}

// Ref names the object.
func (o *Object[S]) Ref() Ref {
	return o.Meta.Ref(KindOf[S]())
}

// Place returns the position in the manifest of the value at path, such as spec.script, or of the nearest value around it;
// the zero Pos for an object of a cluster.
func (o *Object[S]) Place(path string) diag.Pos {
	if o.text == nil || o.text.file == "" {
		return diag.Pos{}
	}
	return document.PlaceIn(o.text.places, o.text.file, path)
}

// Origin returns where the text at path is in the manifest of the object; the zero Origin for an object of a cluster.
func (o *Object[S]) Origin(path string) diag.Origin {
	if o.text == nil {
		return diag.Origin{}
	}
	if origin, ok := o.text.origins[path]; ok {
		return origin
	}
	return diag.Origin{Pos: o.Place(path)}
}

// Has reports whether the object has a value at path.
func (o *Object[S]) Has(path string) bool {
	return o.text != nil && o.text.places[path] != (diag.Pos{})
}

// Decode decodes an object from the JSON of an API server. It returns an error if data is not an object with a name; the
// problems of its spec are in Problems, without positions.
func Decode[S Spec](data []byte) (*Object[S], error) {
	d, err := document.One("", data, config.ObjectRules())
	if err != nil {
		return nil, err
	}
	o := &Object[S]{}
	if err := header(d, &o.Meta); err != nil {
		return nil, err
	}
	if raw := d.MemberJSON("status"); raw != nil {
		if err := json.Unmarshal(raw, &o.Status); err != nil {
			o.Status = Status{} // of another form: it will be overwritten
		}
	}
	read(d, o)
	for i := range o.Problems {
		o.Problems[i].Pos = diag.Pos{}
	}
	o.text.file, o.text.origins = "", nil
	for path := range o.text.places {
		o.text.places[path] = unplaced
	}
	return o, nil
}

// unplaced marks that a value exists in an object that is in no file, see Has.
var unplaced = diag.Pos{Line: 0, Column: 1}

// header decodes the metadata of an object. It needs a name.
func header(d *document.Document, into *Meta) error {
	raw := d.MemberJSON("metadata")
	if raw == nil {
		return errors.New("has no metadata")
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("metadata: %v", err)
	}
	if into.Name == "" {
		return errors.New("metadata has no name")
	}
	return nil
}

// read decodes the spec of an object and checks it without its references.
func read[S Spec](d *document.Document, o *Object[S]) {
	if !d.DecodeMember("spec", &o.Spec) {
		d.Report("spec", "missing; a %s needs one", KindOf[S]().Name)
	}
	check(d, o)
	o.text = &text{d.Places, d.Origins, d.File}
	o.Problems = d.Problems
}

// DecodeConfigMap decodes a ConfigMap from JSON.
func DecodeConfigMap(data []byte) (*ConfigMap, error) {
	var o struct {
		Metadata Meta              `json:"metadata"`
		Data     map[string]string `json:"data"`
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	return &ConfigMap{o.Metadata, o.Data}, nil
}

// DecodeSecret decodes a Secret from JSON: data in base64, and stringData, which takes precedence. Errors contain no value.
func DecodeSecret(data []byte) (*Secret, error) {
	var o struct {
		Metadata   Meta              `json:"metadata"`
		Data       map[string]string `json:"data"`
		StringData map[string]string `json:"stringData"`
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, errors.New("is no Secret")
	}
	s := &Secret{o.Metadata, map[string]secret.Value{}}
	for key, text := range o.Data {
		value, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("data.%s is not base64", key)
		}
		s.Data[key] = secret.NewValue(string(value))
	}
	for key, text := range o.StringData {
		s.Data[key] = secret.NewValue(text)
	}
	return s, nil
}
