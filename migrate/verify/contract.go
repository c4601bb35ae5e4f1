package verify

import (
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/internal/schema"
	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/script"
)

// contract is the schemas that a server checks arguments and result of a scripted tool with; nil: not checked.
type contract struct{ input, output *schema.Schema }

func contractOf(s *migrate.Script) (c contract, err error) {
	if s.Unchecked {
		return c, nil
	}
	if s.Parameters != nil {
		if c.input, err = schema.Compile(s.Parameters); err != nil {
			return c, fmt.Errorf("parameters: %w", err)
		}
	}
	if s.Output != nil {
		if c.output, err = schema.Compile(s.Output); err != nil {
			return c, fmt.Errorf("output: %w", err)
		}
	}
	return c, nil
}

// arguments returns the arguments with their defaults.
func (c contract) arguments(raw json.RawMessage) (json.RawMessage, error) {
	if c.input == nil {
		return raw, nil
	}
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	args, err := c.input.Defaults(raw)
	if err == nil {
		err = c.input.Validate(args)
	}
	if err != nil {
		return nil, fmt.Errorf("the arguments do not fit the parameters: %w", err)
	}
	return args, nil
}

func (c contract) checkOutput(res *script.Result) error {
	if c.output == nil || res.IsError {
		return nil
	}
	if err := c.output.Validate(res.Structured); err != nil {
		return fmt.Errorf("the result does not fit the output schema: %w", err)
	}
	return nil
}
