package toolhive_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/config/kube/toolhive"
)

// FuzzConvert: no manifests cause a panic, nothing is printed if access rules would be lost, and the output is objects of
// ours. Translate reads the same objects.
func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := toolhive.Convert([]toolhive.File{{Name: "f.yaml", Data: data}})
		if len(c.Lost) > 0 && len(c.Manifests) > 0 {
			t.Errorf("printed although something is lost: %v", c.Lost)
		}
		all, _ := object.Read("ours.yaml", c.Manifests)
		for _, m := range all {
			if m.APIVersion != object.APIVersion {
				t.Errorf("printed a %s %s", m.APIVersion, m.Kind)
			}
		}
		asJSON, err := yaml.YAMLToJSON(data)
		if err != nil {
			return
		}
		set := toolhive.Set{}
		for _, kind := range toolhive.Kinds {
			set.Put(kind.Name, "x", json.RawMessage(asJSON))
		}
		toolhive.Translate(set, "x")
		toolhive.Issuers(set)
	})
}
