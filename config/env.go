package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME} in s by what the environment has, ${NAME:-default} by the default
// where it has nothing or an empty text, and $${ by ${. A default is not expanded again.
// Messages name the variable, never a value.
func (v *validator) expand(path, s string) string {
	return v.expandWith(path, s, func(name, value string) {
		v.expandedSecret(path, name, value)
	})
}

// expandPlain is expand for texts that are seldom secrets: a short value is no reason for a
// warning there.
func (v *validator) expandPlain(path, s string) string {
	return v.expandWith(path, s, v.expandedVariable)
}

func (v *validator) expandWith(path, s string, note func(name, value string)) string {
	if v.inObject() {
		return s
	}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		if !ok {
			return b.String() + s
		}
		if strings.HasSuffix(before, "$") {
			b.WriteString(before + "{")
			s = rest
			continue
		}
		b.WriteString(before)
		inner, after, ok := strings.Cut(rest, "}")
		name, fallback, hasFallback := strings.Cut(inner, ":-")
		if !ok || !envName.MatchString(name) || strings.Contains(fallback, "${") {
			v.report(path, "${ begins a variable such as ${TOKEN} or ${LEVEL:-info}; write $${ for the characters themselves")
			return ""
		}
		value, ok := v.env(name)
		switch {
		case value != "":
			note(name, value)
		case hasFallback:
			value = fallback
		case !ok && !v.lenient:
			v.report(path, "the environment has no variable %s", name)
		}
		b.WriteString(value)
		s = after
	}
}

// EnvFile is the file beside a configuration that holds variables for it: lines of NAME=value. The
// environment of the process wins.
const EnvFile = "vmcp.env"

// maxEnvFile bounds a file of variables, in bytes.
const maxEnvFile = 1 << 20

// readEnvFile puts the variables of a file below those of env. Problems have their place in it. A
// file that is not there has no variables.
func readEnvFile(name string, env func(string) (string, bool)) (func(string) (string, bool), diag.Problems) {
	data, err := files.Read(name, maxEnvFile)
	if errors.Is(err, fs.ErrNotExist) {
		return env, nil
	}
	if err != nil {
		return env, diag.Problems{{Pos: diag.Pos{File: diag.File(name), Line: 1, Column: 1}, Code: code, Message: withoutPath(err)}}
	}
	variables, problems := parseEnvFile(diag.File(name), string(data))
	if info, err := os.Stat(name); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 && len(variables) > 0 {
		problems = append(problems, diag.Problem{Pos: diag.Pos{File: diag.File(name), Line: 1, Column: 1}, Severity: diag.Warning, Code: code,
			Message: fmt.Sprintf("others on this machine can read the file: run chmod 600 %s", filepath.Base(name))})
	}
	return func(name string) (string, bool) {
		if value, ok := env(name); ok {
			return value, true
		}
		value, ok := variables[name]
		return value, ok
	}, problems
}

// ReadVariables reads a file of variables, lines of NAME=value. The error is diag.Problems when it is
// none.
func ReadVariables(name string) (map[string]string, error) {
	data, err := files.Read(name, maxEnvFile)
	if err != nil {
		return nil, err
	}
	variables, problems := parseEnvFile(diag.File(name), string(data))
	return variables, problems.Err()
}

// parseEnvFile reads lines of NAME=value. A value may stand in double quotes, with \n, \t, \" and
// \\ in it, or in single quotes, as it is. Lines that are empty or begin with # mean nothing.
func parseEnvFile(file, text string) (map[string]string, diag.Problems) {
	variables := map[string]string{}
	var problems diag.Problems
	text = strings.TrimPrefix(text, "\ufeff")
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		name = strings.TrimSpace(name)
		message := ""
		switch {
		case !ok:
			message = "want NAME=value"
		case !envName.MatchString(name):
			message = "want a name of letters, digits and _ before the ="
		}
		if message == "" {
			if variables[name], ok = unquote(strings.TrimSpace(value)); !ok {
				message = "the value of " + name + " is quoted and does not end with its quotation mark"
			}
		}
		if message != "" {
			problems = append(problems, diag.Problem{Pos: diag.Pos{File: file, Line: i + 1, Column: 1}, Code: code, Message: message})
		}
	}
	return variables, problems
}

// unquote is the value that stands behind the =.
func unquote(s string) (string, bool) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		if value, _, commented := strings.Cut(s, " #"); commented {
			s = strings.TrimSpace(value)
		}
		return s, true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == s[0]:
			rest := strings.TrimSpace(s[i+1:])
			return b.String(), rest == "" || rest[0] == '#'
		case c == '\\' && s[0] == '"' && i+1 < len(s):
			i++
			b.WriteString(unescaped(s[i]))
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// unescaped is what a backslash and c stand for; of unknown ones, both.
func unescaped(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'r':
		return "\r"
	case '"', '\\', '$', '`':
		return string(c)
	}
	return `\` + string(c)
}
