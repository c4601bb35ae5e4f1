package catalog

import (
	"encoding/json"
	"strconv"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script"
)

// hints are the tool annotations about risk. Those of a script are derived from the tools that it can call, and are
// never weaker than theirs.
type hints struct {
	readOnly, destructive, openWorld bool
	idempotent                       bool // of a backend's tool, or declared by a script; never derived
}

// worst is assumed of an unknown tool.
var worst = hints{destructive: true, openWorld: true}

// and combines the hints of two tools: the riskier ones.
func (h hints) and(o hints) hints {
	return hints{readOnly: h.readOnly && o.readOnly, destructive: h.destructive || o.destructive, openWorld: h.openWorld || o.openWorld}
}

// hintsOf reads a backend's hints with the defaults of the specification (schema, ToolAnnotations), or derives a
// script's, once for each. Tools that can call each other in a cycle, and their callers, have the worst hints.
func (b *builder) hintsOf(e *Entry) hints {
	if e == nil {
		return worst
	}
	if e.Script == nil {
		return readHints(jsonscan.Get(e.Definition, "annotations"))
	}
	if known, ok := b.derived[e]; ok {
		return known
	}
	if b.derived == nil {
		b.derived = map[*Entry]hints{}
	}
	b.derived[e] = worst // for cycles
	calls := e.Script.Calls
	if calls.Dynamic {
		return worst
	}
	all := hints{readOnly: true}
	for _, name := range calls.Tools {
		all = all.and(b.hintsOf(b.find(name)))
	}
	b.derived[e] = all
	return all
}

func (b *builder) find(name string) *Entry {
	if e := b.c.toolByName[name]; e != nil {
		return e
	}
	return b.c.toolByOrigin[name]
}

func readHints(annotations json.RawMessage) hints {
	h := hints{
		readOnly:    string(jsonscan.Get(annotations, "readOnlyHint")) == "true",
		destructive: string(jsonscan.Get(annotations, "destructiveHint")) != "false",
		openWorld:   string(jsonscan.Get(annotations, "openWorldHint")) != "false",
		idempotent:  string(jsonscan.Get(annotations, "idempotentHint")) == "true",
	}
	h.destructive = h.destructive && !h.readOnly
	return h
}

// Repeat says whether a call of the tool may be repeated. The configuration overrides the annotations readOnlyHint and
// idempotentHint (schema, ToolAnnotations). A scripted tool may be repeated: its effects are in the journal of the run
// that calls it.
func (e *Entry) Repeat() script.Repeat {
	switch {
	case e.Script != nil:
		return script.ReadOnly
	case e.repeatable != nil && !*e.repeatable:
		return script.Once
	case e.repeatable != nil && e.distrusted:
		return script.Idempotent
	case e.repeatable != nil:
		return max(e.hinted(), script.Idempotent)
	case e.distrusted:
		return script.Once
	}
	return e.hinted()
}

// trust sets what a configuration says about repeating a tool.
func (e *Entry) trust(cfg *config.Config, over config.ToolOverride) {
	e.repeatable, e.distrusted = over.Repeatable, cfg.Runs.TrustHints != nil && !*cfg.Runs.TrustHints
}

// hinted is Repeat by the annotations of the tool.
func (e *Entry) hinted() script.Repeat {
	h := readHints(jsonscan.Get(e.Definition, "annotations"))
	switch {
	case h.readOnly:
		return script.ReadOnly
	case h.idempotent:
		return script.Idempotent
	}
	return script.Once
}

// annotate adds derived hints to the definition of a script. Declared ones have precedence, unless they are weaker than
// the derived ones and trustAnnotations is not set.
func (b *builder) annotate(e *Entry) {
	derived := b.hintsOf(e)
	annotations := jsonscan.Get(e.Script.Definition, "annotations")
	for _, hint := range []struct {
		key           string
		derived, safe bool
	}{
		{"readOnlyHint", derived.readOnly, true},
		{"destructiveHint", derived.destructive, false},
		{"openWorldHint", derived.openWorld, false},
	} {
		declared := jsonscan.Get(annotations, hint.key)
		safer := string(declared) == strconv.FormatBool(hint.safe) && hint.derived != hint.safe
		if safer && !e.Script.Trusted && b.complete {
			b.problem("", e.Name, "annotations.%s: %s claims less risk than the tools that the script can call have, so %v is used; to keep it, set trustAnnotations (trust_annotations in a file's tool(...))", hint.key, declared, hint.derived)
		}
		if declared == nil || safer && !e.Script.Trusted {
			annotations = jsonscan.Set(annotations, hint.key, strconv.AppendBool(nil, hint.derived))
		}
	}
	e.Definition = jsonscan.Set(e.Script.Definition, "annotations", annotations)
}
