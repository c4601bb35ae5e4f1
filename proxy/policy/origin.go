package policy

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/display"
)

// Named returns the entry of an origin by the configuration alone, with its exposed name.
// Hints and Contested, for which backends have to be asked, are not set.
func Named(cfg *config.Config, kind Kind, origin string) (Of, error) {
	backend, original, ok := config.SplitOrigin(origin)
	if !ok {
		return Of{}, fmt.Errorf("want an origin such as files.read or %s.deploy, have %q", config.ScriptsOrigin, origin)
	}
	of := Of{Kind: kind, Name: original, Backend: backend, Original: original}
	if backend == config.ScriptsOrigin {
		return of, nil
	}
	var known []string
	for _, b := range cfg.Backends {
		known = append(known, b.Name)
	}
	if !slices.Contains(known, backend) {
		hint := ""
		if near := display.Nearest(backend, append(known, config.ScriptsOrigin)); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near+"."+original)
		}
		return Of{}, fmt.Errorf("there is no backend %q%s", backend, hint)
	}
	if kind != Resource {
		of.Name = cfg.PrefixOf(backend) + renamed(cfg, kind, backend, original)
	}
	return of, nil
}

// renamed returns a name after the overrides of a configuration.
func renamed(cfg *config.Config, kind Kind, backend, original string) string {
	name := ""
	for _, w := range cfg.Aggregation.Tools {
		if kind == Tool && w.Workload == backend {
			name = w.Overrides[original].Name
		}
	}
	for _, w := range cfg.Aggregation.Prompts {
		if kind == Prompt && w.Workload == backend {
			name = w.Overrides[original].Name
		}
	}
	if name == "" {
		return original
	}
	return name
}

// HintsOf reads the annotations of a tool's definition.
func HintsOf(annotations json.RawMessage) Hints {
	var given struct {
		ReadOnly    *bool `json:"readOnlyHint"`
		Destructive *bool `json:"destructiveHint"`
		Idempotent  *bool `json:"idempotentHint"`
		OpenWorld   *bool `json:"openWorldHint"`
	}
	if json.Unmarshal(annotations, &given) != nil {
		return Hints{}
	}
	return Hints{given.ReadOnly, given.Destructive, given.Idempotent, given.OpenWorld}
}

// Question is a decision to be made without a request.
type Question struct {
	Who       Identity
	Of        Of
	Arguments json.RawMessage // nil: whether there are arguments with which it is allowed
}

// Answer decides a question, by Possible or Decide.
func (s *Set) Answer(q Question) Decision {
	p, e := s.Principal(q.Who), s.Entry(q.Of)
	if q.Arguments == nil {
		return s.Possible(p, e)
	}
	return s.Decide(p, e, q.Arguments)
}

// Depends reports whether the answer depends on the hints of the tool.
func (s *Set) Depends(q Question) bool {
	if q.Of.Kind != Tool {
		return false
	}
	var yes, no = true, false
	values := []*bool{nil, &yes, &no}
	first := s.Answer(q)
	for i := 1; i < 81; i++ {
		q.Of.Hints = Hints{values[i%3], values[i/3%3], values[i/9%3], values[i/27]}
		if d := s.Answer(q); d.Outcome != first.Outcome || fmt.Sprint(d.Policies) != fmt.Sprint(first.Policies) {
			return true
		}
	}
	return false
}
