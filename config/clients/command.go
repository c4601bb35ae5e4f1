package clients

import (
	"path"
	"slices"
	"strings"
)

// readCommand reads the program of a server. Clients write it as a program with arguments, as
// one list, as one line, or, in older settings of Zed, as an object.
func (t *translation) readCommand() {
	program, args := t.program()
	if t.server.Skipped != "" || program == "" {
		return
	}
	if len(args) == 0 && isLine(program) {
		words, ok := splitWords(program)
		if !ok {
			t.skip("command: a quotation mark is not closed in %q", program)
			return
		}
		program, args = words[0], words[1:]
	}
	program, args = withoutShell(program, args)
	if t.bridge(program, args) {
		return
	}
	s := t.server
	s.Command = t.folder("command", program)
	for _, arg := range args {
		s.Args = append(s.Args, t.folder("args", arg))
	}
}

// isLine reports whether a command is a line with arguments. If its first word is a path, it may be
// one path with spaces in it.
func isLine(command string) bool {
	first, _, more := strings.Cut(strings.ReplaceAll(command, "\t", " "), " ")
	return more && !strings.ContainsAny(first, `/\`)
}

func (t *translation) program() (string, []string) {
	args := t.textList("args")
	for _, name := range []string{"command", "cmd"} {
		n := t.from.get(name)
		if n == nil {
			continue
		}
		switch n.kind {
		case text:
			return strings.TrimSpace(n.text), args
		case list:
			all := t.textsOf(name, n)
			if len(all) == 0 {
				return "", nil
			}
			return all[0], append(all[1:], args...)
		case object: // Zed's older form
			inner := &translation{reader: t.reader, server: t.server, from: n}
			program := inner.text("path")
			args := inner.textList("args")
			env := map[string]string{}
			inner.texts("env", env)
			t.server.Env, t.used = env, append(t.used, inner.used...)
			return program, args
		default:
			t.skip("%s: want a string", name)
		}
	}
	return "", nil
}

func (t *translation) textList(name string) []string {
	n := t.from.get(name)
	if n == nil || n.kind == null {
		return nil
	}
	if n.kind != list {
		t.skip("%s: want a list of strings", name)
		return nil
	}
	return t.textsOf(name, n)
}

func (t *translation) textsOf(name string, n *node) (all []string) {
	for _, item := range n.items {
		switch item.kind {
		case text, number, boolean:
			all = append(all, item.text)
		default:
			t.skip("%s: want a list of strings", name)
		}
	}
	return all
}

// withoutShell unwraps cmd /c PROGRAM ARG..., which npm's scripts need on Windows.
func withoutShell(program string, args []string) (string, []string) {
	name := strings.ToLower(strings.TrimSuffix(path.Base(strings.ReplaceAll(program, `\`, "/")), ".exe"))
	if name == "cmd" && len(args) >= 2 && strings.EqualFold(args[0], "/c") {
		return args[1], args[2:]
	}
	return program, args
}

// splitWords splits a line at white space outside of single and double quotes.
func splitWords(line string) (words []string, ok bool) {
	var word strings.Builder
	quote, inWord := rune(0), false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inWord = c, true
		case quote == 0 && (c == ' ' || c == '\t'):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			inWord = true
			word.WriteRune(c)
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, quote == 0 && len(words) > 0
}

// bridge unwraps npx mcp-remote URL, a stdio-to-HTTP bridge. With other arguments than the URL,
// headers and the transport it is kept as a command.
func (t *translation) bridge(program string, args []string) bool {
	runner := strings.TrimSuffix(path.Base(strings.ReplaceAll(program, `\`, "/")), ".cmd")
	rest := slices.Clone(args)
	switch runner {
	case "npx", "bunx", "pnpx":
		for len(rest) > 0 && (rest[0] == "-y" || rest[0] == "--yes" || rest[0] == "-q") {
			rest = rest[1:]
		}
		if len(rest) == 0 || !isBridge(rest[0]) {
			return false
		}
		rest = rest[1:]
	case "mcp-remote":
	default:
		return false
	}
	address, headers, transport, ok := bridgeOptions(rest)
	if !ok {
		return false
	}
	t.unwrap(address, headers, transport)
	return true
}

func isBridge(name string) bool {
	name, _, _ = strings.Cut(name, "@")
	return name == "mcp-remote"
}

// bridgeOptions reads the arguments of mcp-remote; ok is false if one of them has no equivalent in
// a backend with a URL.
func bridgeOptions(args []string) (address string, headers []string, transport string, ok bool) {
	for i := 0; i < len(args); i++ {
		value := ""
		if i+1 < len(args) {
			value = args[i+1]
		}
		switch arg := args[i]; {
		case arg == "--header" && value != "":
			headers = append(headers, value)
			i++
		case arg == "--transport" && value != "":
			transport = value
			i++
		case arg == "--allow-http":
		case address == "" && (strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://") || strings.HasPrefix(arg, "${")):
			address = arg
		default:
			return "", nil, "", false
		}
	}
	return address, headers, transport, address != ""
}

// unwrap replaces a bridge by its URL. Variables in headers that are set in the server's env are
// replaced by their values.
func (t *translation) unwrap(address string, headers []string, transport string) {
	s := t.server
	s.URL = t.expand("args", t.fromEnv(address))
	switch transport {
	case "sse-only":
		s.Transport = "sse"
	case "http-only":
		s.Transport = "streamable-http"
	}
	s.Headers = map[string]string{}
	for _, header := range headers {
		name, value, ok := strings.Cut(header, ":")
		if !ok {
			t.skip("args: --header %q: want NAME:VALUE", name)
			return
		}
		s.Headers[strings.TrimSpace(name)] = t.expand("args", t.fromEnv(strings.TrimSpace(value)))
	}
	if len(s.Headers) == 0 {
		s.Headers = nil
	}
	t.note("mcp-remote is not started: vmcp speaks to %s itself", s.URL)
}

// fromEnv replaces the variables of a text that are set in the server's env.
func (t *translation) fromEnv(s string) string {
	for _, m := range t.object("env") {
		if m.value.kind == text && envName.MatchString(m.name) {
			s = strings.ReplaceAll(s, "${"+m.name+"}", m.value.text)
		}
	}
	return s
}
