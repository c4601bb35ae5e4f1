package migrate_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/verify"
)

// TestRandomWorkflows generates workflows and runs each twice: as the script that it is
// migrated to, and in the interpreter. Both call the same tools, level by level, and end with the same
// text.
func TestRandomWorkflows(t *testing.T) {
	failed := 0
	counts := map[string]int{}
	once := []int{7962, 8416, 9918, 11260, 11544, 13282, 13836, 17934, 18517, 30054, 33754} // found mistakes, without a schema
	for seed := range seeds(testmode.Count(20, 5000), append(once, 50368, 54282, 55734, 63526)...) {
		m := &maker{Rand: rand.New(rand.NewPCG(uint64(seed), 7)), gentle: seed%2 == 0}
		f := m.workflow()
		if !slices.Contains(once, seed) {
			r := rand.New(rand.NewPCG(uint64(seed), 13))
			f.schema = schemaOf(r)
			f.nest(r)
		}
		want := newInterpreter(f)
		ended := want.run()
		if !checkWorkflow(t, f, ended) || !checkClean(t, f, want, ended, counts) {
			t.Logf("seed %d: %s", seed, f.json())
			if failed++; failed > *mostFailures {
				return
			}
		}
	}
	t.Logf("in the clean style %v", counts)
}

var (
	firstSeed    = flag.Int("first", 0, "first seed of the random workflows")
	mostFailures = flag.Int("failures", 5, "how many random workflows may fail before the test gives up")
	moreSeeds    = flag.Int("seeds", 0, "how many random workflows there are, instead of what the form of the tests says")
)

// seeds returns n seeds and those of more, which have found mistakes, or the ones of the
// command line.
func seeds(n int, more ...int) iter.Seq[int] {
	if *moreSeeds > 0 {
		n, more = *moreSeeds, nil
	}
	return func(yield func(int) bool) {
		for i := range n + len(more) {
			seed := *firstSeed + i
			if i >= n {
				seed = more[i-n]
			}
			if !yield(seed) {
				return
			}
		}
	}
}

// runRandom migrates a workflow and runs the script.
func runRandom(t *testing.T, f *flow, style migrate.Style) (*migrate.Script, verify.Outcome, error) {
	t.Helper()
	defs, err := migrate.Parse("random.json", f.json())
	if err != nil {
		return &migrate.Script{}, verify.Outcome{}, err
	}
	s, err := migrate.Translate(defs[0], migrate.Options{Style: style})
	if err != nil {
		return &migrate.Script{}, verify.Outcome{}, err
	}
	params, err := json.Marshal(f.params)
	if err != nil {
		t.Fatal(err)
	}
	c := verify.Case{Name: "random", Params: params, Fake: f.tools()}
	if style == migrate.Clean { // of which a server refuses calls that do not fit, and random arguments seldom do
		c.Fake.Tools["t.echo"].InputSchema = nil
	}
	have, err := c.RunScript(t.Context(), s)
	return s, have, err
}

func checkWorkflow(t *testing.T, f *flow, want *ending) bool {
	t.Helper()
	s, have, err := runRandom(t, f, migrate.Exact)
	if err != nil {
		t.Errorf("%v\n%s", err, s.Source)
		return false
	}
	problem := want.differs(have)
	if problem != "" {
		t.Errorf("%s\n%s", problem, s.Source)
	}
	return problem == ""
}

// flow is a generated workflow.
type flow struct {
	params map[string]any
	schema map[string]any // of params; nil: none
	steps  []*flowStep
	output map[string]flowProperty
}

type flowStep struct {
	id, tool, condition string
	args                map[string]any
	dependsOn           []string
	continuesOnError    bool
	defaults            map[string]any
	collection          string // of a loop
	level               int
}

type flowProperty struct {
	kind, value string
	fallback    any
	required    bool
	inner       map[string]flowProperty // of an object that has no value
}

// json is the definition of the property.
func (p flowProperty) json() map[string]any {
	def := map[string]any{"type": p.kind, "description": "d"}
	if p.inner != nil {
		inner := map[string]any{}
		for name, in := range p.inner {
			inner[name] = in.json()
		}
		def["properties"] = inner
		return def
	}
	def["value"] = p.value
	if p.fallback != nil {
		def["default"] = p.fallback
	}
	return def
}

// json is the definition of the workflow.
func (f *flow) json() []byte {
	var steps []any
	for _, s := range f.steps {
		def := map[string]any{"id": s.id}
		call := map[string]any{"tool": s.tool, "arguments": s.args}
		if s.collection != "" {
			call["id"] = "inner"
			def["type"], def["collection"], def["step"] = "forEach", s.collection, call
		} else {
			maps.Copy(def, call)
		}
		if s.condition != "" {
			def["condition"] = s.condition
		}
		if len(s.dependsOn) > 0 {
			def["dependsOn"] = s.dependsOn
		}
		if s.continuesOnError {
			def["onError"] = map[string]any{"action": "continue"}
		}
		if s.defaults != nil {
			def["defaultResults"] = s.defaults
		}
		steps = append(steps, def)
	}
	def := map[string]any{"name": "random", "description": "d", "steps": steps}
	if f.schema != nil {
		def["parameters"] = f.schema
	}
	if f.output != nil {
		properties, required := map[string]any{}, []string{}
		for name, p := range f.output {
			properties[name] = p.json()
			if p.required {
				required = append(required, name)
			}
		}
		def["output"] = map[string]any{"properties": properties, "required": required}
	}
	data, err := json.Marshal(def)
	if err != nil {
		panic(err)
	}
	return data
}

// data has its members in their order, which is the order that Go prints them in.
const data = `{"big": 12345678, "empty": "", "f": 2.5, "l": ["a", 1, null, {"k": "v"}], "n": 7, "no": false, "nul": null,
	"o": {"deep": {"n": 3}, "k": "v"}, "rows": [{"k": "x", "n": 1}, {"k": "y", "n": 2}], "s": "text", "yes": true}`

// schemaOf generates a schema for which data is valid: its fields have a type, or none, and may be
// required; further fields are optional. Some workflows have none.
func schemaOf(r *rand.Rand) map[string]any {
	if r.IntN(3) == 0 {
		return nil
	}
	types := map[string]string{"big": "integer", "empty": "string", "f": "number", "l": "array", "n": "integer",
		"no": "boolean", "o": "object", "rows": "array", "s": "string", "yes": "boolean"}
	properties, required := map[string]any{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		if r.IntN(4) == 0 {
			continue
		}
		properties[name] = map[string]any{"type": types[name]}
		if r.IntN(2) == 0 {
			required = append(required, name)
		}
	}
	if kind := r.IntN(8); kind < 6 {
		properties["missing"] = map[string]any{"type": []string{"string", "integer", "number", "boolean", "object", "array"}[kind]}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

// nest makes some properties of the output required, and puts some into an object, in
// workflows that complete.
func (f *flow) nest(r *rand.Rand) {
	if f.output == nil || !f.completes() {
		return
	}
	inner := map[string]flowProperty{}
	for _, name := range slices.Sorted(maps.Keys(f.output)) {
		p := f.output[name]
		p.required = r.IntN(4) == 0
		f.output[name] = p
		if r.IntN(4) == 0 {
			inner[name] = p
			delete(f.output, name)
		}
	}
	if len(inner) > 0 {
		f.output["in"] = flowProperty{kind: "object", required: r.IntN(2) == 0, inner: inner}
	}
}

// tools are the tools that the workflow can call.
func (f *flow) tools() verify.Fake {
	return verify.Fake{Tools: map[string]*verify.Tool{
		"t.echo": {Reply: verify.Reply{Echo: true}, InputSchema: json.RawMessage(echoSchema)},
		"t.data": {Reply: verify.Reply{Structured: json.RawMessage(data)}},
		"t.text": {Reply: verify.Reply{Text: `{"a": [1, 2]}`}},
		"t.fail": {Reply: verify.Reply{IsError: true, Text: "boom"}},
	}}
}

const echoSchema = `{"type": "object", "properties": {"i": {"type": "integer"}, "f": {"type": "number"}, "b": {"type": "boolean"}}}`

// maker generates workflows. Most of them fail; gentle ones complete.
type maker struct {
	*rand.Rand
	gentle bool
}

// completes reports whether the workflow, as it is so far, completes.
func (f *flow) completes() bool {
	in := newInterpreter(f)
	return !in.run().isError && !in.beyond
}

func (m *maker) one(list ...string) string { return list[m.IntN(len(list))] }

func (m *maker) chance(percent int) bool { return m.IntN(100) < percent }

func (m *maker) workflow() *flow {
	f := &flow{}
	if err := json.Unmarshal([]byte(data), &f.params); err != nil {
		panic(err)
	}
	for i := range 1 + m.IntN(5) {
		m.try(f, func() { f.steps = append(f.steps, m.step(f, string(rune('a'+i)))) })
	}
	if m.chance(60) {
		f.output = map[string]flowProperty{}
		for i := range 1 + m.IntN(3) {
			m.try(f, func() { f.output[fmt.Sprint("p", i)] = m.property(f) })
		}
		if len(f.output) == 0 {
			f.output = nil
		}
	}
	return f
}

// try adds something to a workflow; in gentle mode it removes it again when the workflow then fails.
func (m *maker) try(f *flow, add func()) {
	const attempts = 100
	for range attempts {
		steps, output := slices.Clone(f.steps), maps.Clone(f.output)
		add()
		if !m.gentle || f.completes() {
			return
		}
		f.steps, f.output = steps, output
	}
	if len(f.steps) == 0 {
		f.steps = []*flowStep{{id: "a", tool: "t.data", args: map[string]any{}}}
	}
}

func (m *maker) step(f *flow, id string) *flowStep {
	s := &flowStep{id: id, tool: m.one("t.echo", "t.echo", "t.data", "t.text"), args: map[string]any{}}
	for _, other := range f.steps {
		if m.chance(40) {
			s.dependsOn = append(s.dependsOn, other.id)
			s.level = max(s.level, other.level+1)
		}
	}
	item := false
	if m.chance(15) {
		s.collection, item = m.one("{{json .params.l}}", "{{json .params.rows}}", `["x", 2]`, "{{json .params.missing}}", "{{.params.l}}"), true
	}
	if m.chance(25) {
		s.condition = m.one(`{{eq .params.s "text"}}`, `{{eq .params.s "other"}}`, "{{.params.yes}}", "{{.params.no}}", "{{not .params.no}}",
			"{{and .params.yes (gt .params.f 1.0)}}", "{{"+m.boolean(m.context(f, s, item))+"}}")
	}
	if m.chance(20) {
		s.continuesOnError = true
		s.tool = m.one("t.fail", s.tool)
	}
	if s.condition != "" || s.continuesOnError {
		s.defaults = map[string]any{"text": "D"}
		for _, k := range []string{"s", "n", "f", "l", "o", "args", "count", "missing"} {
			s.defaults[k] = m.one("D", "7")
		}
	}
	if m.chance(3) {
		s.tool = "t.fail"
	}
	if m.chance(2) {
		s.tool = "t.nowhere"
	}
	for _, k := range []string{"x", "i", "f", "b"} {
		if m.chance(50) {
			s.args[k] = m.template(m.context(f, s, item), 2)
		}
	}
	if m.chance(30) {
		s.args["nested"] = []any{m.template(m.context(f, s, item), 1), map[string]any{"deep": m.template(m.context(f, s, item), 1)}, 5, nil}
	}
	return s
}

func (m *maker) property(f *flow) flowProperty {
	p := flowProperty{kind: m.one("string", "integer", "number", "boolean", "object", "array")}
	paths := m.context(f, nil, false)
	switch p.kind {
	case "string":
		p.value = m.template(paths, 2)
	case "object", "array":
		p.value = "{{json " + m.one(paths...) + "}}"
	default:
		p.value = m.one("5", "true", "1.5", "{{"+m.one(paths...)+"}}")
	}
	if m.chance(60) {
		p.fallback = map[string]any{
			"string": "D", "integer": 3, "number": 1.5, "boolean": true, "object": map[string]any{"d": "e"}, "array": []any{"d"},
		}[p.kind]
	}
	return p
}

// context lists paths that a template of the step can name.
func (m *maker) context(f *flow, s *flowStep, item bool) []string {
	paths := []string{".params.s", ".params.n", ".params.big", ".params.f", ".params.yes", ".params.l", ".params.o", ".params.rows",
		".params.missing", ".params.nul", ".params.o.k", ".params.o.deep.n", ".params.missing.deeper", ".params.empty"}
	if m.chance(10) {
		paths = append(paths, ".params.s.x", ".params.nul.x", ".steps.ghost.output.x", ".unknown", ".params.o.deep.n.x")
	}
	for _, other := range f.steps {
		if s != nil && other.level >= s.level {
			continue
		}
		at := ".steps." + other.id
		paths = append(paths, at+".output.s", at+".output.n", at+".output.l", at+".output.text", at+".output.args", at+".output",
			at+".status", at+".error", at+".output.o.k", at+".content", at+".output.count")
	}
	if item {
		paths = append(paths, ".forEach.item", ".forEach.index", ".forEach.item.k")
	}
	return paths
}

func (m *maker) operand(paths []string) string {
	if m.chance(65) {
		return m.one(paths...)
	}
	return m.one(`"lit"`, "5", "2.5", "true", `"7"`, "nil", "(printf \"%v\" "+m.one(paths...)+")", "(len .params.l)", "(json "+m.one(paths...)+")",
		"(or "+m.one(paths...)+` "d")`, `(index .params.o "k")`, "(index .params.l 1)", `(fromJson "[1, {\"a\": 2}]")`,
		"(index .params.s "+m.one("0", "3", "9")+")", "(quote "+m.one(paths...)+")", "(printf nil)", "(fromJson "+m.one(paths...)+")")
}

func (m *maker) boolean(paths []string) string {
	return m.one("eq ", "ne ", "lt ", "le ", "gt ", "ge ", "and ", "or ") + m.operand(paths) + " " + m.operand(paths)
}

// template generates the text of a template.
func (m *maker) template(paths []string, depth int) string {
	var b strings.Builder
	for range 1 + m.IntN(3) {
		b.WriteString(m.piece(paths, depth))
	}
	return b.String()
}

func (m *maker) piece(paths []string, depth int) string {
	path := func() string { return m.one(paths...) }
	switch m.IntN(20) {
	case 0, 1:
		return m.one("text ", "100% ", "a\nb\nc\n", `"q" `, "7", "true")
	case 2:
		return "{{json " + path() + "}}"
	case 3:
		return "{{" + m.one("html ", "js ", "urlquery ", "print ", "println ", "len ") + path() + "}}"
	case 4:
		return `{{printf "` + m.one("%v", "%s", "%d", "%5.1f", "%q", "%t", "%T", "%x", "%v|%v") + `" ` + m.operand(paths) + "}}"
	case 5:
		return "{{" + m.boolean(paths) + "}}"
	case 6:
		return "{{" + m.operand(paths) + " | " + m.one("json", "quote", "len", "not", `printf "%v!"`, "html") + "}}"
	case 7:
		return "{{index " + path() + " " + m.one("0", `"k"`, "1", "99", path()) + "}}"
	case 8:
		return "{{slice " + path() + " " + m.one("0", "1", "1 2", "0 99") + "}}"
	}
	if depth == 0 {
		return "{{" + path() + "}}"
	}
	inner := func(p []string) string { return m.template(p, depth-1) }
	dot := []string{".", ".k", ".n", "$.params.s", "$.params.o.deep.n"}
	switch m.IntN(8) {
	case 0:
		return "{{if " + m.operand(paths) + "}}" + inner(paths) + "{{else if " + m.boolean(paths) + "}}" + inner(paths) + "{{else}}-{{end}}"
	case 1:
		return "{{range " + m.one(".params.l", ".params.rows", ".params.o", ".params.missing", path(), "3") + "}}" + inner(dot) + "{{else}}none{{end}}"
	case 2:
		return "{{range $i, $e := " + m.one(".params.l", ".params.rows", ".params.o", path()) + "}}{{$i}}={{" + m.one("$e", "$e.k", "json $e") + "}};{{end}}"
	case 3:
		return "{{with " + path() + "}}" + inner(dot) + "{{else}}" + inner(paths) + "{{end}}"
	case 4:
		return "{{$v := " + m.operand(paths[:5]) + "}}{{if .params.yes}}{{$v = " + path() + "}}{{end}}{{" + m.one("$v", "$v.k", "json $v") + "}}"
	case 5:
		name := fmt.Sprintf("%q", fmt.Sprint("d", m.Uint32()))
		return "{{block " + name + " " + m.one(".params.o", ".params.s", path()) + "}}[" + inner(dot[:2]) + "]{{end}}{{template " + name + " .params.o}}"
	case 6:
		return "{{range $i, $e := .params.l}}{{if eq $i " + m.one("0", "1", "2") + "}}{{" + m.one("break", "continue") + "}}{{end}}{{- $i -}}{{end}}"
	}
	return "{{- " + path() + " -}} "
}

// ending is the result that a run may have: with one of several texts, when several steps failed in one level.
type ending struct {
	isError bool
	texts   []string
	levels  [][]string // calls
}

// differs returns a difference of a run from those that are allowed, "" for none.
func (e *ending) differs(have verify.Outcome) string {
	if have.Result.IsError != e.isError || !slices.Contains(e.texts, have.Result.Text) {
		return fmt.Sprintf("ends\nwith %q (%v)\nwant %q (%v)", have.Result.Text, have.Result.IsError, e.texts, e.isError)
	}
	var calls []string
	for _, c := range have.Trace {
		calls = append(calls, c.Tool+" "+canonical(c.Args))
	}
	for i, level := range e.levels {
		n := min(len(level), len(calls))
		got, want := slices.Sorted(slices.Values(calls[:n])), slices.Sorted(slices.Values(level))
		calls = calls[n:]
		if last := i == len(e.levels)-1; last && e.isError {
			if len(calls) > 0 || !subset(got, want) {
				return fmt.Sprintf("calls of the last level\nhave %q\nwant some of %q", got, want)
			}
			continue
		}
		if !slices.Equal(got, want) {
			return fmt.Sprintf("calls of level %d\nhave %q\nwant %q", i, got, want)
		}
	}
	if len(calls) > 0 {
		return fmt.Sprintf("more calls: %q", calls)
	}
	return ""
}

func subset(some, all []string) bool {
	all = slices.Clone(all)
	for _, s := range some {
		i := slices.Index(all, s)
		if i < 0 {
			return false
		}
		all = slices.Delete(all, i, i+1)
	}
	return true
}

func canonical(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return "null"
	}
	out, _ := json.Marshal(v)
	return string(out)
}
