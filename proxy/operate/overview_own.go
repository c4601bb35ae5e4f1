package operate

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// ownState is vmcp://state.
type ownState struct {
	Backends []ownBackend `json:"backends"`
	Tools    int          `json:"tools"`
	Scripts  int          `json:"scripts"`
}

// ownBackend is one backend in vmcp://state, as its reader sees it.
type ownBackend struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Tools     int    `json:"tools"`
	Prompts   int    `json:"prompts"`
	Resources int    `json:"resources"`
}

// ownScript is one scripted tool in vmcp://scripts.
type ownScript struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	URI         string `json:"uri"`
}

// ResourceText is the content of one of the proxy's own resources for a reader with the view v. It may contain secrets
// of the configuration.
func ResourceText(v *catalog.View, e *catalog.Entry, all []*backends.Backend) string {
	switch e.Own {
	case catalog.OwnScript:
		return e.Text()
	case catalog.OwnList:
		scripts := []ownScript{}
		for _, s := range v.Scripts() {
			scripts = append(scripts, ownScript{s.Name, jsonscan.GetString(s.Definition, "description"), s.ScriptURI()})
		}
		return text(map[string]any{"scripts": scripts})
	}
	s := ownState{Backends: []ownBackend{}, Tools: v.Tools(), Scripts: len(v.Scripts())}
	for _, b := range all {
		if !v.ShowsBackend(b.Name()) {
			continue
		}
		tools, prompts, resources := v.Offers(b.Name())
		s.Backends = append(s.Backends, ownBackend{b.Name(), State(v.Catalog(), b).Status.String(), tools, prompts, resources})
	}
	return text(s)
}

func text(of any) string {
	b, _ := json.MarshalIndent(of, "", "  ") // cannot fail: texts and numbers
	return string(b)
}
