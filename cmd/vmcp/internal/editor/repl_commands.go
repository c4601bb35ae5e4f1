package editor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/display"
)

// commands are the inputs that begin with a colon.
var commands = []struct{ name, args, help string }{
	{":calls", "", "the calls of tools so far, with arguments and results"},
	{":help", "", "this list"},
	{":quit", "", "ends the session, as Ctrl-D does"},
	{":save", "test_NAME [FILE]", "writes the runs of the tool as tests, with what was answered as fakes"},
	{":schema", "NAME", "what a tool takes and returns"},
	{":tools", "", "the tools that scripts can call"},
	{":trace", "", "what the last input did, with times"},
}

// command executes an input that begins with a colon; quit reports whether it ends the session.
func (s *session) command(line string) (quit bool, err error) {
	fields := strings.Fields(line)
	args := fields[1:]
	switch fields[0] {
	case ":quit", ":q":
		return true, nil
	case ":help", ":h":
		for _, c := range commands {
			s.o.print(fmt.Sprintf("%-24s %s", strings.TrimSpace(c.name+" "+c.args), c.help))
		}
	case ":tools":
		for _, name := range s.host.names() {
			s.o.print(strings.TrimRight(fmt.Sprintf("%-32s %s", name, replFirstLine(s.host.tools[name].Description)), " "))
		}
	case ":calls":
		s.showCalls()
	case ":trace":
		for _, l := range s.trace() {
			s.o.print(l)
		}
	case ":schema":
		return false, s.showSchema(args)
	case ":save":
		return false, s.save(args)
	default:
		return false, fmt.Errorf("no command %s%s", fields[0], meant(fields[0]))
	}
	return false, nil
}

func meant(name string) string {
	var names []string
	for _, c := range commands {
		names = append(names, c.name)
	}
	if near := display.Nearest(name, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return "; :help lists them"
}

// maxCallShown bounds what :calls prints of one result, in characters.
const maxCallShown = 500

func (s *session) showCalls() {
	for _, e := range s.calls {
		answer := string(e.Result)
		if e.Err != nil {
			answer = "failed: " + replFirstLine(e.Err.Error())
		}
		s.o.print(fmt.Sprintf("%s %s -> %s", e.Name, e.Args, display.ClipLine(answer, maxCallShown)))
	}
}

func (s *session) showSchema(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf(":schema wants the name of one tool")
	}
	t := s.host.tool(args[0])
	if t == nil {
		return fmt.Errorf("%s", s.host.unknown(args[0]))
	}
	if t.Description != "" {
		s.o.print(t.Description)
	}
	for _, part := range []struct {
		title string
		raw   json.RawMessage
	}{{"input", t.input}, {"output", t.output}} {
		if part.raw == nil {
			s.o.print(part.title + ": anything")
			continue
		}
		var b bytes.Buffer
		if err := json.Indent(&b, part.raw, "", "  "); err != nil {
			return err
		}
		s.o.print(part.title + ": " + b.String())
	}
	return nil
}

// completeCommand completes the name or argument of a command.
func (s *session) completeCommand(line string) (word string, candidates []string) {
	name, arg, args := strings.Cut(line, " ")
	if !args {
		for _, c := range commands {
			candidates = append(candidates, c.name)
		}
		return line, candidates
	}
	if name == ":schema" {
		candidates = slices.Clone(s.host.names())
	}
	return arg, candidates
}
