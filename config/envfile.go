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

// This part of the package reads files of environment variables: lines of NAME=value.

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// isName reports whether name is a valid name of a variable.
func isName(s string) bool { return name.MatchString(s) }

// envfileRead reads a file. Problems have positions in it, and the given code.
func envfileRead(file, code string) (map[string]string, diag.Problems, error) {
	data, err := files.Read(file, maxFile)
	if err != nil {
		return nil, nil, err
	}
	variables, problems := parseEnvFile(diag.File(file), string(data), code)
	return variables, problems, nil
}

// below returns env with the variables of a file as fallback. A file that does not exist has none;
// a file that other users can read is a warning.
func below(env func(string) (string, bool), file, code string) (func(string) (string, bool), diag.Problems) {
	at := diag.Pos{File: diag.File(file), Line: 1, Column: 1}
	variables, problems, err := envfileRead(file, code)
	if errors.Is(err, fs.ErrNotExist) {
		return env, nil
	}
	if err != nil {
		return env, diag.Problems{{Pos: at, Code: code, Message: files.Cause(err).Error()}}
	}
	if info, err := os.Stat(file); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 && len(variables) > 0 {
		problems = append(problems, diag.Problem{Pos: at, Severity: diag.Warning, Code: code,
			Message: fmt.Sprintf("others on this machine can read the file: run chmod 600 %s", filepath.Base(file))})
	}
	return func(name string) (string, bool) {
		if value, ok := env(name); ok {
			return value, true
		}
		value, ok := variables[name]
		return value, ok
	}, problems
}

// maxFile bounds a file of variables, in bytes.
const maxFile = 1 << 20

// parseEnvFile parses lines of NAME=value. A value may be in double quotes, with the escapes \n, \t, \"
// and \\, or in single quotes, without escapes. Lines that are empty or begin with # are ignored.
func parseEnvFile(file, text, code string) (map[string]string, diag.Problems) {
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
		case !isName(name):
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

// unquote is the value after the =, without quotes.
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

// unescaped is the meaning of a backslash and c; both characters if the escape is unknown.
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
