// Command agent is a small agent for the terminal: it offers the tools of an MCP endpoint to a model behind a chat
// API, makes the calls that the model asks for, and prints the answer.
//
//	AGENT_API_KEY=... agent --mcp http://127.0.0.1:4483/mcp --api https://api.example.com/v1 --model NAME "Which service was down longest?"
//
// Without a question it reads questions from standard input, in one conversation. The answer goes to standard
// output, a line for each call to standard error. The exit code is 1 when there is no answer, 2 for wrong
// flags.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the command; it returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(errs)
	endpoint := flags.String("mcp", "http://127.0.0.1:4483/mcp", "`URL` of the MCP endpoint; its bearer token is the environment variable VMCP_TOKEN")
	api := flags.String("api", "", "`URL` of the chat API, without the last part, /chat/completions or /messages; its key is the environment variable AGENT_API_KEY")
	style := flags.String("style", "openai", "protocol of the API: openai or anthropic")
	name := flags.String("model", "", "`name` of the model")
	rounds := flags.Int("rounds", 10, "requests to the model for one answer at most")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	m, err := newModel(*style, *api, *name, os.Getenv("AGENT_API_KEY"))
	if err == nil && *rounds < 1 {
		err = fmt.Errorf("--rounds: want at least 1, have %d", *rounds)
	}
	if err != nil {
		fmt.Fprintln(errs, "agent:", err)
		return 2
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	tools, err := connect(ctx, *endpoint, os.Getenv("VMCP_TOKEN"), &person{lines: lines, out: errs})
	if err != nil {
		fmt.Fprintln(errs, "agent:", err)
		return 1
	}
	defer tools.Close()
	a := &agent{model: m, tools: tools, rounds: *rounds, log: errs}
	if question := strings.Join(flags.Args(), " "); question != "" {
		return a.once(ctx, question, out)
	}
	return a.converse(ctx, lines, out)
}

// once answers one question.
func (a *agent) once(ctx context.Context, question string, out io.Writer) int {
	answer, err := a.answer(ctx, question)
	if err != nil {
		fmt.Fprintln(a.log, "agent:", err)
		return 1
	}
	fmt.Fprintln(out, answer)
	return 0
}

// converse answers questions, one per line, until the end of the input. A question without an answer is removed from the conversation.
func (a *agent) converse(ctx context.Context, lines *bufio.Scanner, out io.Writer) (code int) {
	for fmt.Fprint(a.log, "> "); lines.Scan(); fmt.Fprint(a.log, "> ") {
		if question := strings.TrimSpace(lines.Text()); question != "" {
			code = a.once(ctx, question, out)
		}
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Fprintln(a.log)
	return code
}
