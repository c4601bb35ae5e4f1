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

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/visible"
)

// Answers are what a user says to a call's questions before it is asked, by the name of the
// field.
type Answers map[string]answer

// ParseAnswers reads answers from the forms that they have on a command line: name=value
// pairs and a JSON object. It returns nil when there are none.
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

// answer is what a user says to one field: text as typed, or a JSON value.
type answer struct {
	text string
	raw  json.RawMessage // instead of text
}

// An Asker answers what a running call asks: from the given answers, then from the person
// at the terminal; nobody there means no.
type Asker struct {
	Context  context.Context // of the command
	Given    Answers         // nil: none
	Agrees   bool            // to what has nothing that must be filled in
	Terminal *bufio.Reader   // nil: nobody to ask
	Screen   io.Writer       // for prompts
	// Tell shows a message to whom the question is for.
	Tell func(message string)

	recorder *recorder       // of the endpoint; nil without one
	asked    json.RawMessage // the form of a question that comes from no endpoint; guarded by mu

	mu   sync.Mutex      // one question at a time
	used map[string]bool // answers that were asked for; guarded by mu
}

// clientOptions are those of a client that can be asked.
func (k *Asker) clientOptions() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		ElicitationHandler: k.elicit,
	}
}

// elicit answers one question.
func (k *Asker) elicit(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ask(ctx, r.Params)
}

// Ask answers a question that comes from no endpoint: the params of elicitation/create, to its
// result.
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
	k.tell("asks: %s", p.Message)
	content, err := k.fill(ctx, p)
	switch {
	case err == nil:
		return &mcp.ElicitResult{Action: "accept", Content: content}, nil
	case errors.Is(err, errCancels):
		return &mcp.ElicitResult{Action: "cancel"}, nil
	case errors.Is(err, io.EOF):
		k.tell("declined")
		return &mcp.ElicitResult{Action: "decline"}, nil
	case ctx.Err() != nil || k.Context.Err() != nil:
		return nil, err
	}
	k.tell("declined: %s", err)
	return &mcp.ElicitResult{Action: "decline"}, nil
}

var errCancels = errors.New("cancelled")

// fill answers the fields of a question; an error that is not io.EOF says why it cannot.
func (k *Asker) fill(ctx context.Context, p *mcp.ElicitParams) (map[string]any, error) {
	if p.URL != "" {
		k.tell("open %s", p.URL)
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
		return content, k.confirm(ctx) // that all fields may be left out is nobody's yes
	}
	return content, nil
}

// given reports whether there is an answer to a field.
func (k *Asker) given(f *field) bool {
	_, ok := k.Given[f.name]
	return ok
}

// schema is the form of a question as it was sent: the SDK's value has lost the order.
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

// confirm asks for a yes where there is nothing to fill in.
func (k *Asker) confirm(ctx context.Context) error {
	if k.Agrees {
		return nil
	}
	if k.Terminal == nil {
		return errors.New("nobody is at the terminal; give an empty --answers '{}' to accept")
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

// field answers one field; nil leaves it out.
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
		k.tell("%s: %s", f.name, err)
	}
	switch {
	case k.Terminal != nil && (k.Given == nil || ok || f.required):
		return k.askField(ctx, f)
	case f.fallback != nil || !f.required:
		return f.fallback, nil
	}
	return nil, fmt.Errorf("nobody is at the terminal to answer %s; give --answer %s=VALUE", f.name, f.name)
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
		k.tell("%s: %s", f.name, err)
	}
}

// tell writes a message to whom the question is for.
func (k *Asker) tell(format string, args ...any) {
	k.Tell(fmt.Sprintf(format, args...))
}

// prompt shows text and reads a line; io.EOF when the user ends the input instead.
func (k *Asker) prompt(ctx context.Context, text string) (string, error) {
	fmt.Fprint(k.Screen, "  "+visible.Line(text))
	read := make(chan typed, 1)
	go k.readLine(read) // ends with its line, or with the process: a terminal's read cannot be broken off
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

// Unused are the names of answers that nothing asked for, in order: they may be misspelled.
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

// plain is a value as the SDK takes it.
func plain(raw json.RawMessage) (v any, err error) {
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	var n int64
	if json.Unmarshal(raw, &n) == nil {
		return n, nil // without the detour through a float
	}
	return v, nil
}
