package catalog

import (
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/schema"
)

// contract is the schemas of a backend's tool that calls of scripts are validated with. A schema that does not compile
// is not used: the backend validates for itself.
type contract struct {
	tool          string
	input, output *schema.Schema
}

// contract compiles e's schemas on first use.
func (e *Entry) contract() *contract {
	e.contractOnce.Do(func() {
		e.schemas.tool = e.Name
		e.schemas.input = foreignSchema(jsonscan.Get(e.Definition, "inputSchema"))
		e.schemas.output = foreignSchema(jsonscan.Get(e.Definition, "outputSchema"))
	})
	return &e.schemas
}

// Input is the input schema of a tool; nil if it has none that compiles.
func (e *Entry) Input() *schema.Schema { return e.contract().input }

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

// CheckInput validates the arguments of a script's call with the input schema.
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

// CheckOutput validates a successful result with the output schema.
func (e *Entry) CheckOutput(result json.RawMessage) error {
	c := e.contract()
	if c.output == nil || string(jsonscan.Get(result, "isError")) == "true" {
		return nil
	}
	value := jsonscan.Get(result, "structuredContent")
	if value == nil {
		return fmt.Errorf("tool %s declares an output schema but returned no structured content", c.tool)
	}
	if err := c.output.Validate(value); err != nil {
		return fmt.Errorf("the result of %s does not fit its output schema: %w", c.tool, err)
	}
	return nil
}
