package operate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// overviewTool describes a tool, with example arguments that are valid for its schema.
func overviewTool(e *catalog.Entry, shapes *status.Table) status.Tool {
	t := status.Tool{
		ToolRow: row(e), InputSchema: jsonscan.Get(e.Definition, "inputSchema"), OutputSchema: jsonscan.Get(e.Definition, "outputSchema"),
		Annotations: jsonscan.Get(e.Definition, "annotations"),
	}
	arguments := json.RawMessage("{…}")
	if example, ok := schema.Example(t.InputSchema); ok {
		t.Example, arguments = example, example
	}
	if !e.Hidden {
		t.Call = fmt.Sprintf("vmcp call %s --args '%s'", e.Name, strings.ReplaceAll(string(arguments), "'", `'\''`))
	}
	t.Script = fmt.Sprintf("call_tool(%s, %s)", jsonscan.Quote(e.Name), starlark(arguments))
	if e.Script != nil && e.Script.Program != nil {
		at := e.Script.Program.Entry()
		t.Source = fmt.Sprintf("%s:%d", at.Filename(), at.Line)
	}
	if at, last := shapes.Last(e.Name); last != nil {
		t.LastResult = &status.LastResult{At: at.UTC(), Shape: last}
	}
	return t
}

// starlark converts a JSON text to a Starlark expression: true, false and null have other names.
func starlark(text []byte) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var b strings.Builder
	if !json.Valid(text) || !expression(&b, d) {
		return string(text)
	}
	return b.String()
}

// expression writes the next value of d; the members of objects keep their order.
func expression(b *strings.Builder, d *json.Decoder) bool {
	token, err := d.Token()
	if err != nil {
		return false
	}
	switch v := token.(type) {
	case json.Delim:
		b.WriteString(v.String())
		for n := 0; d.More(); n++ {
			if n > 0 {
				b.WriteString(", ")
			}
			if v == '{' {
				if !expression(b, d) {
					return false
				}
				b.WriteString(": ")
			}
			if !expression(b, d) {
				return false
			}
		}
		end, err := d.Token()
		fmt.Fprint(b, end)
		return err == nil
	case string:
		b.Write(jsonscan.Quote(v))
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case nil:
		b.WriteString("None")
	default:
		fmt.Fprint(b, v)
	}
	return true
}
