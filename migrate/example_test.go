package migrate_test

import (
	"fmt"

	"github.com/vmcp-dev/vmcp/migrate"
)

func ExampleTranslate() {
	definitions, err := migrate.Parse("greet.yaml", []byte(`
name: greet
description: Says hello.
parameters:
  type: object
  properties: {name: {type: string}}
steps:
  - id: say
    tool: chat.say
    arguments: {text: "Hello, {{.params.name}}"}
`))
	if err != nil {
		panic(err)
	}
	script, err := migrate.Translate(definitions[0], migrate.Options{Style: migrate.Clean})
	if err != nil {
		panic(err)
	}
	fmt.Print(script.Source)
	// Output:
	// # Says hello.
	//
	// def run(params):
	//     return call_tool("chat.say", {"text": "Hello, %s" % params.get("name", "")})
}
