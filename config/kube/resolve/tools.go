package resolve

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// A tool is one version of a scripted or composite tool, with the text of its script.
type tool struct {
	object     object.Ref // the object that defines it; for a tool in a server's own config, the server
	path       string     // of the tool in the object
	generation int64
	scripted   *config.ScriptedTool
	composite  *config.CompositeTool
	origin     diag.Origin // of the script
	unknown    bool        // its text or a library is missing offline: it is not checked
}

func (t *tool) name() string {
	if t.scripted != nil {
		return t.scripted.Name
	}
	return t.composite.Name
}

// label is the name of the tool in messages of a server.
func (t *tool) label() string {
	if t.object.Kind == object.Server {
		return t.name()
	}
	return t.object.Name
}

// scripted makes a tool of an object's spec, with its script from a ConfigMap if it has scriptFrom.
func (l lookup) scripted(t config.ScriptedTool, of object.Ref, path string) (*tool, finding) {
	var f finding
	v := &tool{object: of, path: path, generation: of.Generation, scripted: &t, origin: diag.Origin{Pos: diag.Pos{File: t.Name + ".star", Line: 1, Column: 1}, Exact: true}}
	from := t.ScriptFrom
	if from == nil {
		return v, f
	}
	ref := from.ConfigMapKeyRef
	text, bundle, unknown := l.text(ref, path+".scriptFrom.configMapKeyRef", &f)
	t.Script, t.ScriptFrom, v.unknown = text, nil, unknown
	if bundle != nil {
		t.Bundle = &config.Bundle{Name: ref.Name, File: ref.Key, Texts: bundle.Data}
		v.origin.File = ref.Name + "/" + ref.Key
		if !f.found() && text == "" {
			f.add(object.ReasonInvalid, path+".scriptFrom.configMapKeyRef", "key %s of ConfigMap %s is empty; want a script that defines run(params)", ref.Key, ref.Name)
		}
	}
	return v, f
}

// checks caches the problems of tools, by a digest of their content and scope.
type checks struct {
	check   Check
	known   map[digest]diag.Problems
	refused map[digest]diag.Problems // by Apply, though they compile
	// During one Resolve: the digests that it uses, and those of the texts of ConfigMaps by the address of the map.
	used    map[digest]bool
	bundles map[uintptr]digest
}

type digest = [32]byte

func newChecks(check Check) *checks {
	return &checks{check: check, known: map[digest]diag.Problems{}, refused: map[digest]diag.Problems{}}
}

// begin starts the bookkeeping of one Resolve.
func (c *checks) begin() { c.used, c.bundles = map[digest]bool{}, map[uintptr]digest{} }

// end removes the digests that this Resolve did not use.
func (c *checks) end() {
	maps.DeleteFunc(c.known, func(key digest, _ diag.Problems) bool { return !c.used[key] })
	maps.DeleteFunc(c.refused, func(key digest, _ diag.Problems) bool { return !c.used[key] })
}

// A scope is the part of a server's configuration that its tools run with.
type scope struct {
	base *config.Config // libraries, limits and runs are used
	hash digest
}

// scopeOf returns the scope of a server's version.
func scopeOf(base *config.Config) scope {
	text, err := json.Marshal([]any{base.Libraries, base.Limits, base.Runs})
	if err != nil {
		panic(err) // texts and numbers
	}
	return scope{base, sha256.Sum256(text)}
}

// key is the digest of all that the problems of a tool depend on.
func (c *checks) key(t *tool, s scope) digest {
	h := sha256.New()
	h.Write(s.hash[:])
	e := json.NewEncoder(h)
	parts := []any{t.composite}
	if t.scripted != nil {
		parts = []any{t.scripted, t.origin}
		if b := t.scripted.Bundle; b != nil {
			parts = append(parts, b.Name, b.File, c.bundle(b.Texts))
		}
	}
	if err := e.Encode(parts); err != nil {
		panic(err) // texts and numbers
	}
	return digest(h.Sum(nil))
}

// bundle is the digest of the texts of a ConfigMap, computed once per Resolve: many tools may come from one.
func (c *checks) bundle(texts map[string]string) digest {
	id := reflect.ValueOf(texts).Pointer()
	sum, ok := c.bundles[id]
	if !ok {
		text, err := json.Marshal(texts)
		if err != nil {
			panic(err) // texts
		}
		sum = sha256.Sum256(text)
		c.bundles[id] = sum
	}
	return sum
}

// of returns the problems of a tool in the scope of a server; none for an unknown one.
func (c *checks) of(t *tool, s scope) diag.Problems {
	if t.unknown || c.check == nil {
		return nil
	}
	key := c.key(t, s)
	c.used[key] = true
	if p, ok := c.refused[key]; ok {
		return p
	}
	if p, ok := c.known[key]; ok {
		return p
	}
	problems, _ := c.check(configOf(t, s)).Split()
	c.known[key] = problems
	return problems
}

// refuse records the problems for which Apply refused a tool that compiles.
func (c *checks) refuse(t *tool, s scope, problems diag.Problems) { c.refused[c.key(t, s)] = problems }

// configOf makes a configuration with one tool.
func configOf(t *tool, s scope) *config.Config {
	c := &config.Config{Libraries: slices.Clone(s.base.Libraries), Limits: s.base.Limits, Runs: s.base.Runs}
	for i := range c.Libraries {
		path := config.IndexPath("libraries", i) + ".source"
		c.SetOrigin(path, s.base.Origin(path))
	}
	put(c, t)
	c.Complete()
	return c
}

// put adds a tool to a configuration.
func put(c *config.Config, t *tool) {
	if t.composite != nil {
		definition := *t.composite
		definition.Pos = diag.Pos{} // a position in the manifest: the path is used instead
		c.CompositeTools = append(c.CompositeTools, definition)
		return
	}
	c.SetOrigin(config.IndexPath("scriptedTools", len(c.ScriptedTools))+".script", t.origin)
	c.ScriptedTools = append(c.ScriptedTools, *t.scripted)
}
