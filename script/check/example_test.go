package check_test

import (
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// A file is checked without running it, against the tools that exist.
func ExampleFile() {
	source := `
def run(params):
    call_tool("deploy", {"enviroment": "staging"})
    total = 1
    return totl
`
	file := script.File{Name: "release.star", Source: []byte(source)}
	for _, p := range check.File(file, check.Options{
		Builtins: builtins.Table(),
		Tools: map[string]check.Tool{
			"deploy": {Input: json.RawMessage(`{"type": "object", "properties": {"environment": {"type": "string"}}, "additionalProperties": false}`)},
		},
	}) {
		fmt.Println(p)
	}
	// Output:
	// release.star:3:26: error: deploy has no argument "enviroment"; did you mean "environment"? [argument-unknown]
	// release.star:5:12: error: undefined: totl; did you mean total? [undefined]
}

// A ExampleScan collects the tools that a program calls while it is compiled.
func ExampleScan() {
	scan := check.NewScan(builtins.Table())
	_, err := script.Compile(
		script.File{Name: "release.star", Source: []byte("def run(params):\n    call_tool(\"build\")\n    call_tool(\"deploy\")\n")},
		script.Options{Builtins: builtins.All(), Inspect: scan.File},
	)
	fmt.Println(scan.Calls().Tools, err)
	// Output: [build deploy] <nil>
}
