package catalog

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "rewrite testdata/definitions.json")

// A sample is a definition and its repaired forms. test/clients validates both forms with
// the schemas of real clients.
type sample struct {
	Kind     string          `json:"kind"`
	Def      json.RawMessage `json:"def"`
	Legacy   json.RawMessage `json:"legacy,omitempty"` // absent when it is def
	Modern   json.RawMessage `json:"modern,omitempty"` // absent when it is def
	Notes    []string        `json:"notes,omitempty"`
	Unusable string          `json:"unusable,omitempty"`
}

const samplesFile = "testdata/definitions.json"

func samples(t *testing.T) []sample {
	t.Helper()
	data, err := os.ReadFile(samplesFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []sample
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

var kinds = map[string]definitionKind{"tools": definitionTool, "prompts": definitionPrompt, "resources": definitionResource, "resourceTemplates": definitionTemplate}

// judge sets the repaired forms of the definition of s.
func (s sample) judge() sample {
	kind, def := kinds[s.Kind], s.Def
	out := sample{Kind: s.Kind, Def: def}
	var members map[string]any
	_ = json.Unmarshal(def, &members)
	name, _ := members[kind.key].(string)
	if err := kind.Usable(name, def); err != nil {
		out.Unusable = err.Error()
		return out
	}
	legacy, modern, notes := kind.Repair(name, def)
	if !bytes.Equal(legacy, def) {
		out.Legacy = legacy
	}
	if !bytes.Equal(modern, def) {
		out.Modern = modern
	}
	out.Notes = notes
	return out
}

func TestHostileDefinitions(t *testing.T) {
	all := samples(t)
	for i, want := range all {
		got := want.judge()
		if g, w := encode(t, got), encode(t, want); g != w && !*update {
			t.Errorf("%s\n got %s\nwant %s", want.Def, g, w)
		}
		all[i] = got
	}
	if *update {
		writeSamples(t, all)
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// writeSamples writes one sample on each line.
func writeSamples(t *testing.T, all []sample) {
	t.Helper()
	var lines []string
	for _, s := range all {
		lines = append(lines, encode(t, s))
	}
	if err := os.WriteFile(samplesFile, []byte("[\n"+strings.Join(lines, ",\n")+"\n]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A repaired definition needs no further repair.
func TestRepairIsStable(t *testing.T) {
	for _, s := range samples(t) {
		s = s.judge()
		for form, def := range map[string]json.RawMessage{"legacy": s.Legacy, "modern": s.Modern} {
			if def == nil {
				continue
			}
			again := sample{Kind: s.Kind, Def: def}.judge()
			if form == "legacy" && again.Legacy != nil || form == "modern" && again.Modern != nil || again.Unusable != "" {
				t.Errorf("the %s form of %s\n is %s\n and is repaired again: %+v", form, s.Def, def, again)
			}
		}
	}
}

func TestInvalidUTF8(t *testing.T) {
	legacy, modern, notes := definitionTool.Repair("t", json.RawMessage("{\"name\":\"t\",\"inputSchema\":{\"type\":\"object\"},\"title\":\"a\xff\"}"))
	want := `{"name":"t","inputSchema":{"type":"object"},"title":"a` + "\uFFFD" + `"}`
	if string(legacy) != want || string(modern) != want || len(notes) != 1 {
		t.Errorf("got %s, %s, %q, want %s", legacy, modern, notes, want)
	}
}

// A valid definition is not copied.
func TestGoodDefinitionsPassAsTheyAre(t *testing.T) {
	good := json.RawMessage(`{ "name":"t", "inputSchema" :{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},"x":1.0}`)
	legacy, modern, notes := definitionTool.Repair("t", good)
	if &legacy[0] != &good[0] || &modern[0] != &good[0] || notes != nil {
		t.Errorf("got %s, %s, %q", legacy, modern, notes)
	}
	if n := testing.AllocsPerRun(10, func() { definitionTool.Repair("t", good) }); n > 60 {
		t.Errorf("repair of a good definition: %v allocations", n)
	}
}

// A definition with many mistakes has a bounded number of notes.
func TestNotesAreBounded(t *testing.T) {
	var def bytes.Buffer
	def.WriteString(`{"name":"t","inputSchema":{"type":"object","properties":{"` + strings.Repeat("é", 10_000) + `":7`)
	for i := range 10_000 {
		fmt.Fprintf(&def, `,"p%d":7`, i)
	}
	def.WriteString(`}}}`)
	legacy, _, notes := definitionTool.Repair("t", def.Bytes())
	if !json.Valid(legacy) || len(notes) != maxNotes+1 || notes[maxNotes] != "and 9993 more" {
		t.Errorf("got %d notes, the last %q", len(notes), notes[len(notes)-1])
	}
	for _, note := range notes {
		if len(note) > maxNote+100 || !utf8.ValidString(note) {
			t.Errorf("a note of %d bytes: %.100s", len(note), note)
		}
	}
}

// A schema that is expensive to check is left out at the bound of work.
func TestWorkIsBounded(t *testing.T) {
	for name, schema := range map[string]string{
		"references": `{"type":"object","properties":{` + many(20_000, `"p%d":{"$ref":"#/$defs/d%[1]d"}`) + `},"$defs":{` + many(20_000, `"d%d":{}`) + `}}`,
		"anchors":    `{"type":"object","properties":{` + many(20_000, `"p%d":{"$ref":"#a%[1]d"}`) + `}}`,
		"depth":      `{"type":"object","items":` + strings.Repeat(`{"x":"`+strings.Repeat("x", 10_000)+`","items":`, 400) + `{}` + strings.Repeat("}", 401),
	} {
		s := &repair{}
		if out := legacyOutput(s, "outputSchema", json.RawMessage(schema)); out != nil || len(s.notes) != 1 {
			t.Errorf("%s: got %.100s, %.300q", name, out, s.notes)
		}
	}
}

func many(n int, format string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return strings.Join(all, ",")
}

func BenchmarkRepair(b *testing.B) {
	def := json.RawMessage(`{"name":"t","description":"` + strings.Repeat("word ", 100) + `","inputSchema":{"type":"object","properties":{` +
		strings.Repeat(`"a":{"type":"string","description":"what it is for"},`, 10) + `"b":{}},"required":["a"]},"outputSchema":{"type":"object","properties":{` +
		strings.Repeat(`"a":{"type":"string","pattern":"^[a-z]+$"},`, 10) + `"b":{}}}}`)
	b.SetBytes(int64(len(def)))
	for b.Loop() {
		definitionTool.Repair("t", def)
	}
}

func FuzzRepair(f *testing.F) {
	all, err := os.ReadFile(samplesFile)
	if err != nil {
		f.Fatal(err)
	}
	var seeds []sample
	if err := json.Unmarshal(all, &seeds); err != nil {
		f.Fatal(err)
	}
	for _, s := range seeds {
		f.Add(s.Kind, []byte(s.Def))
	}
	f.Fuzz(func(t *testing.T, kind string, def []byte) {
		if _, ok := kinds[kind]; !ok || !json.Valid(def) || len(bytes.TrimSpace(def)) != len(def) {
			return
		}
		if kinds[kind].Usable("x", def) != nil {
			return
		}
		legacy, modern, _ := kinds[kind].Repair("x", def)
		if !json.Valid(legacy) || !json.Valid(modern) {
			t.Fatalf("%s: made %s and %s", def, legacy, modern)
		}
		if again, _, notes := kinds[kind].Repair("x", legacy); !bytes.Equal(again, legacy) && !slices.Equal(notes, nil) {
			t.Fatalf("%s\nbecame %s\nbecame %s: %q", def, legacy, again, notes)
		}
	})
}
