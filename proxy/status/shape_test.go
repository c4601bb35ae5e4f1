package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for result, want := range map[string]string{
		`{"structuredContent":{"b":[1,2,{"c":null}],"a":"secret"},"content":[]}`: `{"a":"string","b":["number",{"c":"null"}]}`,
		`{"content":[{"type":"text","text":"{\"a\": [true]}"}]}`:                 `{"a":["boolean"]}`,
		`{"content":[{"type":"text","text":"{not JSON}"}]}`:                      `"string"`,
		`{"content":[{"type":"text","text":"x"},{"type":"image","data":""}]}`:    `[{"text":"string","type":"string"},{"data":"string","type":"string"}]`,
		`{"content":[]}`: `[]`, `{}`: `"null"`, `[`: `"null"`, `{"structuredContent":{}}`: `{}`,
	} {
		if got := string(shapeOf([]byte(result))); got != want {
			t.Errorf("Of(%s) = %s, want %s", result, got, want)
		}
	}
}

// TestShapesAreBounded: a wide or deep result has a bounded shape, which is valid JSON.
func TestShapesAreBounded(t *testing.T) {
	many := map[string]any{}
	for i := range 100 {
		many[fmt.Sprint("customer", i)] = i
	}
	wide := map[string]any{}
	for i := range 20 {
		inner := map[string]any{}
		for j := range 30 {
			inner[fmt.Sprint("a-long-key-of-some-object-", j)] = many
		}
		wide[fmt.Sprint(i)] = inner
	}
	for name, v := range map[string]any{"many": many, "wide": wide, "list": []any{wide, many}} {
		text, err := json.Marshal(map[string]any{"structuredContent": v})
		if err != nil {
			t.Fatal(err)
		}
		if got := shapeOf(text); len(got) > maxShape || !json.Valid(got) || strings.Contains(string(got), "customer") {
			t.Errorf("%s: %d bytes: %.100s", name, len(got), got)
		}
	}
	deep := shapeOf([]byte(`{"structuredContent":` + strings.Repeat(`{"a":`, 1000) + `1` + strings.Repeat(`}`, 1000) + `}`))
	if len(deep) > 100 || !json.Valid(deep) {
		t.Errorf("deep: %s", deep)
	}
	var table Table
	for i := range maxTools + 100 {
		table.Note(fmt.Sprint(i), []byte(`{}`))
	}
	if at, got := table.Last(fmt.Sprint(maxTools + 7)); len(table.all) != 100 || string(got) != `"null"` || at.IsZero() {
		t.Errorf("%d tools, the last result %s at %v", len(table.all), got, at)
	}
	if _, got := table.Last("7"); got != nil {
		t.Errorf("a tool that was forgotten has %s", got)
	}
}
