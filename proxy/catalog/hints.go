package catalog

import (
	"encoding/json"
	"strconv"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script"
)

// hints are the tool annotations that tell a client how careful to be. Of a script they
// are derived from the tools that it can call, and never look safer than those.
type hints struct {
	readOnly, destructive, openWorld bool
	idempotent                       bool // of a backend's tool, or as a script declares it; not derived
}

// worst is what must be assumed of a tool that nobody knows.
var worst = hints{destructive: true, openWorld: true}

// and is both tools together.
func (h hints) and(o hints) hints {
	return hints{readOnly: h.readOnly && o.readOnly, destructive: h.destructive || o.destructive, openWorld: h.openWorld || o.openWorld}
}

// hintsOf reads a backend's hints with the defaults of the specification
// (schema, ToolAnnotations), or derives a script's, once for each: tools that can call each other
// have the worst of hints, and so has what calls them.
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
	b.derived[e] = worst // for those that it calls
	calls := e.Script.calls
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

// Repeat is what is known of calling a tool once more. What the configuration says is stronger than what
// the tool says (schema, ToolAnnotations): that it only reads, or is idempotent. What a scripted tool does is in
// the journal of the run that calls it.
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

// hinted is what the annotations of a tool say.
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

// annotate completes the definition of a script with derived hints. What the
// configuration says wins, unless it looks safer than what the script calls and the
// configuration does not say that this is meant.
func (b *builder) annotate(e *Entry) {
	derived := b.hintsOf(e)
	annotations := jsonscan.Get(e.Script.definition, "annotations")
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
		if safer && !e.Script.trusted && b.complete {
			b.problem("", e.Name, "annotations.%s: %s looks safer than the tools that the script can call, so it is %v; set trustAnnotations (trust_annotations in a file's tool(...)) if it is meant", hint.key, declared, hint.derived)
		}
		if declared == nil || safer && !e.Script.trusted {
			annotations = jsonscan.Set(annotations, hint.key, strconv.AppendBool(nil, hint.derived))
		}
	}
	e.Definition = jsonscan.Set(e.Script.definition, "annotations", annotations)
}
