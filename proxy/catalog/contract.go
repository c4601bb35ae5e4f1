package catalog

import (
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/schema"
)

// contract is the schemas of a backend's tool, which scripts are held to. A schema that
// cannot be compiled holds nobody to anything: the backend checks for itself.
type contract struct {
	tool          string
	input, output *schema.Schema
}

// contract compiles e's schemas when the first script calls it.
func (e *Entry) contract() *contract {
	e.contractOnce.Do(func() {
		e.schemas.tool = e.Name
		e.schemas.input = foreignSchema(jsonscan.Get(e.Definition, "inputSchema"))
		e.schemas.output = foreignSchema(jsonscan.Get(e.Definition, "outputSchema"))
	})
	return &e.schemas
}

func foreignSchema(raw json.RawMessage) *schema.Schema {
	if len(raw) == 0 {
		return nil
	}
	s, err := schema.CompileForeign(raw)
	if err != nil {
		return nil
	}
	return s
}

// CheckInput holds the arguments of a script's call to the input schema.
func (e *Entry) CheckInput(args json.RawMessage) error {
	c := e.contract()
	if c.input == nil {
		return nil
	}
	if err := c.input.Validate(args); err != nil {
		return fmt.Errorf("the arguments do not fit the input schema of %s: %w", c.tool, err)
	}
	return nil
}

// CheckOutput holds a successful result to the output schema.
func (e *Entry) CheckOutput(result json.RawMessage) error {
	c := e.contract()
	if c.output == nil || string(jsonscan.Get(result, "isError")) == "true" {
		return nil
	}
	value := jsonscan.Get(result, "structuredContent")
	if value == nil {
		return fmt.Errorf("%s declares an output schema and returned no structured content", c.tool)
	}
	if err := c.output.Validate(value); err != nil {
		return fmt.Errorf("the result of %s does not fit its output schema: %w", c.tool, err)
	}
	return nil
}
