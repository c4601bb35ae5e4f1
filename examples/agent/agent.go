package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A message is one turn of a conversation, independent of an API.
type message struct {
	question string   // of a person
	answer   string   // of the model, which may have calls besides
	calls    []call   // that the model asks for
	results  []result // of the calls of the message before
}

// call is a call that a model asks for.
type call struct {
	id, name  string
	arguments json.RawMessage // an object
	malformed string          // why the arguments are none; "" if they are
}

// result is the result of a call.
type result struct {
	id, text string
	failed   bool
}

// tool is a tool that the model may call.
type tool struct {
	name, description string
	schema            any
}

// model is a model behind an API.
type model interface {
	// next returns the next message of the model.
	next(ctx context.Context, conversation []message, tools []tool) (message, error)
}

// toolset lists and calls tools.
type toolset interface {
	// list returns the current tools.
	list(ctx context.Context) ([]tool, error)
	// call calls a tool of the last list. An error is a result that failed.
	call(ctx context.Context, c call) result
}

// agent answers questions with a model and tools.
type agent struct {
	model        model
	tools        toolset
	rounds       int       // requests to the model for one answer at most
	log          io.Writer // a line for each call
	conversation []message
}

// maxResult bounds the part of a result that a model gets, in bytes.
const maxResult = 100 << 10

// answer makes the calls that the model asks for until it answers without one.
func (a *agent) answer(ctx context.Context, question string) (string, error) {
	before := len(a.conversation)
	a.conversation = append(a.conversation, message{question: question})
	text, err := a.rest(ctx)
	if err != nil {
		a.conversation = a.conversation[:before] // APIs refuse calls without results
	}
	return text, err
}

func (a *agent) rest(ctx context.Context) (string, error) {
	for range a.rounds {
		tools, err := a.tools.list(ctx)
		if err != nil {
			return "", err
		}
		m, err := a.model.next(ctx, a.conversation, tools)
		if err != nil {
			return "", err
		}
		a.conversation = append(a.conversation, m)
		if len(m.calls) == 0 {
			return m.answer, nil
		}
		var results []result
		for _, c := range m.calls {
			results = append(results, a.perform(ctx, c))
		}
		a.conversation = append(a.conversation, message{results: results})
	}
	return "", fmt.Errorf("no answer after %d rounds (--rounds)", a.rounds)
}

// perform calls a tool and logs the call.
func (a *agent) perform(ctx context.Context, c call) result {
	r := result{id: c.id, text: c.malformed, failed: true}
	if c.malformed == "" {
		r = a.tools.call(ctx, c)
	}
	outcome := "ok"
	if r.failed {
		outcome = "failed: " + line(r.text)
	}
	fmt.Fprintf(a.log, "%s %s: %s, %d bytes\n", line(c.name), line(string(c.arguments)), outcome, len(r.text))
	if len(r.text) > maxResult {
		cut := maxResult
		for cut > 0 && !utf8.RuneStart(r.text[cut]) {
			cut--
		}
		r.text = fmt.Sprintf("%s\n[cut: %d of %d bytes are here]", r.text[:cut], cut, len(r.text))
	}
	return r
}

// line is the beginning of a text on one line, without what a terminal would act on.
func line(text string) string {
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 || c >= 0x200b && c <= 0x200f || c >= 0x202a && c <= 0x202e || c >= 0x2066 && c <= 0x2069 {
			return ' '
		}
		return c
	}, text)
	if runes := []rune(text); len(runes) > 120 {
		return string(runes[:119]) + "…"
	}
	return text
}
