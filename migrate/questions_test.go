package migrate_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/verify"
)

// TestRandomQuestions generates chains of questions, loops and calls, and answers: where the
// exact script completes, the clean one does, with the same calls and the same result.
func TestRandomQuestions(t *testing.T) {
	chains, completed, failed := 0, 0, 0
	for seed := range seeds(testmode.Count(60, 5000)) {
		chains++
		m := &maker{Rand: rand.New(rand.NewPCG(uint64(seed), 11))}
		c := m.questions(t)
		_, want := runCase(t, c, migrate.Exact)
		if want.Status != "completed" {
			continue
		}
		completed++
		s, have := runCase(t, c, migrate.Clean)
		if c.Want, c.Style = want, migrate.Clean; c.Exception() != "" {
			continue
		}
		for _, d := range verify.CompareClean(have, want) {
			t.Errorf("seed %d: %s\nhave %s\nwant %s\n%s\n%s", seed, d.What, d.Have, d.Want, c.Tool, s.Source)
			failed++
		}
		if failed > 5 {
			return
		}
	}
	t.Logf("%d of %d chains completed", completed, chains)
}

func runCase(t *testing.T, c verify.Case, style migrate.Style) (*migrate.Script, verify.Outcome) {
	t.Helper()
	c.Style = style
	s, refused := c.Migrate()
	if s == nil {
		t.Fatalf("%s\n%s", refused.Refused(), c.Tool)
	}
	have, err := c.RunScript(t.Context(), s)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Source)
	}
	return s, have
}

// questions generates a chain of steps and the answers of a user.
func (m *maker) questions(t *testing.T) verify.Case {
	c := verify.Case{Name: "questions", Params: json.RawMessage(data)}
	c.Fake = (&flow{}).tools()
	var steps []any
	var ids, kinds []string
	for i := range 2 + m.IntN(4) {
		id := string(rune('a' + i))
		kind := m.one("question", "question", "loop", "call", "call")
		steps = append(steps, m.chained(id, kind, ids, kinds))
		ids, kinds = append(ids, id), append(kinds, kind)
		if kind == "question" {
			a := verify.Answer{Action: m.one("accept", "accept", "accept", "decline", "cancel")}
			if a.Action == "accept" {
				a.Content = json.RawMessage(m.one(`{"who": "Ann"}`, `{"who": "Bo", "ok": true}`, `{"who": "", "ok": false}`))
			}
			c.Fake.Elicitations = append(c.Fake.Elicitations, a)
		}
	}
	def := map[string]any{"name": "w", "description": "d", "steps": steps}
	if m.chance(70) {
		properties := map[string]any{}
		for i := range 1 + m.IntN(3) {
			p := map[string]any{"type": "string", "description": "d", "value": m.about(ids, kinds)}
			if m.chance(40) {
				p["default"] = "D"
			}
			properties[fmt.Sprint("p", i)] = p
		}
		def["output"] = map[string]any{"properties": properties}
	}
	raw, err := json.Marshal(def)
	if err != nil {
		t.Fatal(err)
	}
	c.Tool = raw
	return c
}

// chained is a step that depends on all steps before it.
func (m *maker) chained(id, kind string, ids, kinds []string) map[string]any {
	s := map[string]any{"id": id}
	if len(ids) > 0 {
		s["dependsOn"] = ids[len(ids)-1:]
	}
	if m.chance(30) {
		s["condition"] = m.one("{{.params.yes}}", "{{.params.no}}")
		if len(ids) > 0 && m.chance(60) {
			s["condition"] = "{{" + m.one("eq ", "ne ") + m.worded(ids, kinds) + " " + m.one(`"accept"`, `"completed"`, `"skipped"`, `"decline"`) + "}}"
		}
	}
	defaults := map[string]any{"action": "none", "content": map[string]any{}, "count": 0, "completed": 0, "failed": 0, "iterations": []any{}, "tool": "T", "s": "S"}
	if s["condition"] != nil || m.chance(20) {
		s["defaultResults"] = defaults
	}
	args := map[string]any{"x": "[" + m.about(ids, kinds) + "]"}
	switch kind {
	case "question":
		s["type"], s["message"] = "elicitation", "Go on? "+m.about(ids, kinds)
		s["schema"] = json.RawMessage(`{"type": "object", "properties": {"who": {"type": "string"}, "ok": {"type": "boolean"}}, "required": ["who"]}`)
		for _, handler := range []string{"onDecline", "onCancel"} {
			if m.chance(80) {
				s[handler] = map[string]any{"action": m.one("continue", "skip_remaining", "skip_remaining", "abort")}
			}
		}
	case "loop":
		s["type"], s["collection"] = "forEach", m.one("{{json .params.rows}}", "{{json .params.l}}", "[]")
		args["i"] = m.one("{{.forEach.index}}", "{{.forEach.item}}", "{{json .forEach.item}}")
		s["step"] = map[string]any{"id": "in", "tool": m.one("t.echo", "t.echo", "t.fail"), "arguments": args}
		if m.chance(70) {
			s["onError"], s["defaultResults"] = map[string]any{"action": "continue"}, defaults
		}
	default:
		s["tool"], s["arguments"] = m.one("t.echo", "t.data", "t.text", "t.fail"), args
		if m.chance(70) {
			s["onError"], s["defaultResults"] = map[string]any{"action": "continue"}, defaults
		}
	}
	return s
}

// about is a text with a template that uses the steps before.
func (m *maker) about(ids, kinds []string) string {
	if len(ids) == 0 {
		return "{{.params.s}}"
	}
	if m.chance(15) {
		i := m.IntN(len(ids))
		if kinds[i] == "loop" {
			return "{{range .steps." + ids[i] + ".output.iterations}}{{.index}}={{.status}};{{end}}"
		}
	}
	return "{{" + m.about1(ids, kinds) + "}}" + m.one("", "", "!")
}

// worded is a part of the steps before that is a text, if there is one.
func (m *maker) worded(ids, kinds []string) string {
	i := m.IntN(len(ids))
	at := ".steps." + ids[i]
	if kinds[i] == "question" {
		return m.one(at+".output.action", at+".output.content.who", at+".status")
	}
	return m.one(at+".status", at+".output.tool")
}

func (m *maker) about1(ids, kinds []string) string {
	i := m.IntN(len(ids))
	at := ".steps." + ids[i]
	switch kinds[i] {
	case "question":
		return m.one(at+".output.action", at+".status", at+".output.content.who", at+".output.content.ok", at+".output.content.none")
	case "loop":
		return m.one(at+".output.count", at+".output.completed", at+".output.failed", at+".status")
	}
	return m.one(at+".output.s", at+".output.tool", at+".status")
}
