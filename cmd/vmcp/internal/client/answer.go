package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// Answers are what a user gives on the command line for the questions of a call, by the name of the
// field.
type Answers map[string]answer

// ParseAnswers reads answers in the two forms of the command line: name=value pairs, and a JSON
// object. It returns nil when there are none.
func ParseAnswers(pairs []string, object string) (Answers, error) {
	if object == "" && len(pairs) == 0 {
		return nil, nil
	}
	given := Answers{}
	if object != "" {
		object := bytes.TrimSpace([]byte(object))
		if !json.Valid(object) || object[0] != '{' {
			return nil, errors.New(`--answers: want a JSON object such as '{"confirm": true}'`)
		}
		jsonscan.Each(object, func(name, value []byte) bool {
			given[string(name)] = answer{raw: bytes.Clone(value)}
			return true
		})
	}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, errors.New("--answer: want name=value, have " + pair)
		}
		given[name] = answer{text: value}
	}
	return given, nil
}

// answer is the value for one field: text as typed, or a JSON value.
type answer struct {
	text string
	raw  json.RawMessage // instead of text
}

// An Asker answers the elicitation requests of a running call: from the given answers, then from the
// person at the terminal. Without a terminal, what has no answer is declined.
type Asker struct {
	Context  context.Context // of the command
	Given    Answers         // nil: none
	Agrees   bool            // accepts a request that has no required field
	Terminal *bufio.Reader   // nil: nobody to ask
	Screen   io.Writer       // for prompts
	// Tell shows a message to the person who answers.
	Tell func(message string)

	recorder *recorder       // of the endpoint; nil without one
	asked    json.RawMessage // the schema of a request that was not received from the endpoint; guarded by mu

	mu   sync.Mutex      // one question at a time
	used map[string]bool // given answers that some request had a field for; guarded by mu
}

// clientOptions declare that the client supports elicitation, by form and by URL.
func (k *Asker) clientOptions() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		ElicitationHandler: k.elicit,
	}
}

// elicit answers one request of the endpoint.
func (k *Asker) elicit(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask(ctx, r.Params)
}

// Ask answers a question that was not received from the endpoint. params are those of elicitation/create;
// it returns the result of that method.
func (k *Asker) Ask(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	var p mcp.ElicitParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = jsonscan.Get(params, "requestedSchema")
	defer func() { k.asked = nil }()
	result, err := k.ask(ctx, &p)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

func (k *Asker) ask(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	k.print("asks: %s", p.Message)
	content, err := k.fill(ctx, p)
	switch {
	case err == nil:
		return &mcp.ElicitResult{Action: "accept", Content: content}, nil
	case errors.Is(err, errCancels):
		return &mcp.ElicitResult{Action: "cancel"}, nil
	case errors.Is(err, io.EOF):
		k.print("declined")
		return &mcp.ElicitResult{Action: "decline"}, nil
	case ctx.Err() != nil || k.Context.Err() != nil:
		return nil, err
	}
	k.print("declined: %s", err)
	return &mcp.ElicitResult{Action: "decline"}, nil
}

var errCancels = errors.New("cancelled")

// fill answers the fields of a request. The error is io.EOF when the person declines; any other says why a field has no answer.
func (k *Asker) fill(ctx context.Context, p *mcp.ElicitParams) (map[string]any, error) {
	if p.URL != "" {
		k.print("open %s", p.URL)
		return nil, k.confirm(ctx)
	}
	fields, err := fieldsOf(k.schema(p))
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return map[string]any{}, k.confirm(ctx)
	}
	content := map[string]any{}
	for _, f := range fields {
		value, err := k.field(ctx, f)
		if err != nil {
			return nil, err
		}
		if value == nil {
			continue
		}
		if content[f.name], err = plain(value); err != nil {
			return nil, err
		}
	}
	if k.Terminal == nil && !slices.ContainsFunc(fields, k.given) {
		return content, k.confirm(ctx) // that no field is required does not mean that anybody agreed
	}
	return content, nil
}

// given reports whether the command line has an answer for a field.
func (k *Asker) given(f *field) bool {
	_, ok := k.Given[f.name]
	return ok
}

// schema is the form of a request as it was sent: the SDK's value has lost the order of the fields.
func (k *Asker) schema(p *mcp.ElicitParams) json.RawMessage {
	if k.asked != nil {
		return k.asked
	}
	if k.recorder != nil {
		if raw := k.recorder.form(p.Message); raw != nil {
			return raw
		}
	}
	raw, err := json.Marshal(p.RequestedSchema)
	if err != nil {
		return nil
	}
	return raw
}

// confirm asks for a yes to a request without fields.
func (k *Asker) confirm(ctx context.Context) error {
	if k.Agrees {
		return nil
	}
	if k.Terminal == nil {
		return errors.New("standard input is not a terminal; give an empty --answers '{}' to accept")
	}
	for {
		line, err := k.prompt(ctx, "yes, no or cancel: ")
		if err != nil {
			return err
		}
		switch strings.ToLower(line) {
		case "y", "yes":
			return nil
		case "n", "no":
			return io.EOF
		case "c", "cancel":
			return errCancels
		}
	}
}

// field returns the value of one field; nil leaves it out.
func (k *Asker) field(ctx context.Context, f *field) (json.RawMessage, error) {
	given, ok := k.Given[f.name]
	if ok {
		if k.used == nil {
			k.used = map[string]bool{}
		}
		k.used[f.name] = true
		value, err := f.read(given)
		if err == nil {
			return value, nil
		}
		if k.Terminal == nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		k.print("%s: %s", f.name, err)
	}
	switch {
	case k.Terminal != nil && (k.Given == nil || ok || f.required):
		return k.askField(ctx, f)
	case f.fallback != nil || !f.required:
		return f.fallback, nil
	}
	return nil, fmt.Errorf("standard input is not a terminal, so %s cannot be asked; give --answer %s=VALUE", f.name, f.name)
}

// askField asks the person at the terminal until the answer fits.
func (k *Asker) askField(ctx context.Context, f *field) (json.RawMessage, error) {
	for {
		line, err := k.prompt(ctx, f.prompt())
		if err != nil {
			return nil, err
		}
		if line == "" && (f.fallback != nil || !f.required) {
			return f.fallback, nil
		}
		value, err := f.read(answer{text: line})
		if err == nil {
			return value, nil
		}
		k.print("%s: %s", f.name, err)
	}
}

// print shows a message to the person who answers.
func (k *Asker) print(format string, args ...any) {
	k.Tell(fmt.Sprintf(format, args...))
}

// prompt shows text and reads a line; io.EOF when the input has ended.
func (k *Asker) prompt(ctx context.Context, text string) (string, error) {
	fmt.Fprint(k.Screen, "  "+display.VisibleLine(text))
	read := make(chan typed, 1)
	go k.readLine(read) // ends after a line, or with the process: a read of a terminal cannot be interrupted
	select {
	case t := <-read:
		if t.err != nil {
			fmt.Fprintln(k.Screen)
		}
		return strings.TrimSpace(t.line), t.err
	case <-ctx.Done():
		return "", ctx.Err()
	case <-k.Context.Done():
		return "", k.Context.Err()
	}
}

type typed struct {
	line string
	err  error
}

func (k *Asker) readLine(read chan<- typed) {
	line, err := k.Terminal.ReadString('\n')
	read <- typed{line, err}
}

// Unused returns the names of given answers that no request had a field for, sorted: they may be misspelled.
func (k *Asker) Unused() (names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(k.Given)) {
		if !k.used[name] {
			names = append(names, name)
		}
	}
	return names
}

// plain is a value in the types that the SDK expects.
func plain(raw json.RawMessage) (v any, err error) {
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	var n int64
	if json.Unmarshal(raw, &n) == nil {
		return n, nil // not by way of a float, which would round it
	}
	return v, nil
}
