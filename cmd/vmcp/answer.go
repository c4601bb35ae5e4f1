package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// answerFlags are the answers that a user gives before there is a question.
type answerFlags struct {
	pairs  []string // name=value
	object string   // JSON
}

// given returns the answers by the name of their field; nil when there are none.
func (f *answerFlags) given() (map[string]answer, error) {
	if f.object == "" && len(f.pairs) == 0 {
		return nil, nil
	}
	given := map[string]answer{}
	if f.object != "" {
		object := bytes.TrimSpace([]byte(f.object))
		if !json.Valid(object) || object[0] != '{' {
			return nil, usageError(`--answers: want a JSON object such as '{"confirm": true}'`)
		}
		wire.Each(object, func(name, value []byte) bool {
			given[string(name)] = answer{raw: bytes.Clone(value)}
			return true
		})
	}
	for _, pair := range f.pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usageError("--answer: want name=value, have " + pair)
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

// newAsker makes the one that answers what the call will ask.
func (a *app) newAsker(ctx context.Context, f *callFlags) (k *asker, done func(), err error) {
	k = &asker{app: a, ctx: ctx, screen: a.err, used: map[string]bool{}, agrees: f.answers.object != ""}
	done = func() {}
	if k.given, err = f.answers.given(); err != nil || f.args == "-" || !isTerminal(a.in) {
		return k, done, err
	}
	if !isTerminal(a.err) { // it goes to a file, where nobody would see a question
		tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
		if err != nil {
			return k, done, nil
		}
		k.screen, done = tty, func() { _ = tty.Close() }
	}
	k.terminal = bufio.NewReader(a.in)
	return k, done, nil
}

// An asker answers what a running call asks: from the flags, then from the person at the
// terminal; nobody there means no.
type asker struct {
	app      *app
	ctx      context.Context // of the command
	recorder *recorder
	given    map[string]answer // nil: none
	agrees   bool              // to what has nothing to fill in
	terminal *bufio.Reader     // nil: nobody to ask
	screen   io.Writer         // where the one to ask is looking; else standard error

	mu   sync.Mutex      // one question at a time
	used map[string]bool // answers that were asked for; guarded by mu
}

// clientOptions are those of a client that can be asked.
func (k *asker) clientOptions() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		ElicitationHandler: k.elicit,
	}
}

// elicit answers one question.
func (k *asker) elicit(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tell("asks: %s", r.Params.Message)
	content, err := k.fill(ctx, r.Params)
	switch {
	case err == nil:
		return &mcp.ElicitResult{Action: "accept", Content: content}, nil
	case errors.Is(err, errCancels):
		return &mcp.ElicitResult{Action: "cancel"}, nil
	case errors.Is(err, io.EOF):
		k.tell("declined")
		return &mcp.ElicitResult{Action: "decline"}, nil
	case ctx.Err() != nil || k.ctx.Err() != nil:
		return nil, err
	}
	k.tell("declined: %s", err)
	return &mcp.ElicitResult{Action: "decline"}, nil
}

var errCancels = errors.New("cancelled")

// fill answers the fields of a question; an error that is not io.EOF says why it cannot.
func (k *asker) fill(ctx context.Context, p *mcp.ElicitParams) (map[string]any, error) {
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
	return content, nil
}

// schema is the form of a question as it was sent: the SDK's value has lost the order.
func (k *asker) schema(p *mcp.ElicitParams) json.RawMessage {
	if raw := k.recorder.form(p.Message); raw != nil {
		return raw
	}
	raw, err := json.Marshal(p.RequestedSchema)
	if err != nil {
		return nil
	}
	return raw
}

// confirm asks for a yes where there is nothing to fill in.
func (k *asker) confirm(ctx context.Context) error {
	if k.agrees {
		return nil
	}
	if k.terminal == nil {
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
func (k *asker) field(ctx context.Context, f *field) (json.RawMessage, error) {
	given, ok := k.given[f.name]
	if ok {
		k.used[f.name] = true
		value, err := f.read(given)
		if err == nil {
			return value, nil
		}
		if k.terminal == nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		k.tell("%s: %s", f.name, err)
	}
	switch {
	case k.terminal != nil && (k.given == nil || ok || f.required):
		return k.askField(ctx, f)
	case f.fallback != nil || !f.required:
		return f.fallback, nil
	}
	return nil, fmt.Errorf("nobody is at the terminal to answer %s; give --answer %s=VALUE", f.name, f.name)
}

// askField asks the person at the terminal until the answer fits.
func (k *asker) askField(ctx context.Context, f *field) (json.RawMessage, error) {
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

// tell writes a line to whom the question is for.
func (k *asker) tell(format string, args ...any) {
	fmt.Fprintln(k.screen, "vmcp: "+printable(fmt.Sprintf(format, args...)))
}

// prompt shows text and reads a line; io.EOF when the user ends the input instead.
func (k *asker) prompt(ctx context.Context, text string) (string, error) {
	fmt.Fprint(k.screen, "  "+printable(text))
	read := make(chan typed, 1)
	go k.readLine(read) // ends with its line, or with the process: a terminal's read cannot be broken off
	select {
	case t := <-read:
		if t.err != nil {
			fmt.Fprintln(k.screen)
		}
		return strings.TrimSpace(t.line), t.err
	case <-ctx.Done():
		return "", ctx.Err()
	case <-k.ctx.Done():
		return "", k.ctx.Err()
	}
}

type typed struct {
	line string
	err  error
}

func (k *asker) readLine(read chan<- typed) {
	line, err := k.terminal.ReadString('\n')
	read <- typed{line, err}
}

// tellUnused says which answers nobody asked for: they may be misspelled.
func (k *asker) tellUnused() {
	for _, name := range slices.Sorted(maps.Keys(k.given)) {
		if !k.used[name] {
			k.app.say("nothing asked for the answer %s", name)
		}
	}
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
