// Package envfile reads files of variables for the environment: lines of NAME=value.
package envfile

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

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// IsName reports whether a variable may have that name.
func IsName(s string) bool { return name.MatchString(s) }

// Read reads a file. Problems have their place in it, and the code that is given.
func Read(file, code string) (map[string]string, diag.Problems, error) {
	data, err := files.Read(file, maxFile)
	if err != nil {
		return nil, nil, err
	}
	variables, problems := parse(diag.File(file), string(data), code)
	return variables, problems, nil
}

// Below puts the variables of a file below those of env. A file that is not there has none; one
// that others can read is a warning.
func Below(env func(string) (string, bool), file, code string) (func(string) (string, bool), diag.Problems) {
	at := diag.Pos{File: diag.File(file), Line: 1, Column: 1}
	variables, problems, err := Read(file, code)
	if errors.Is(err, fs.ErrNotExist) {
		return env, nil
	}
	if err != nil {
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			err = path.Err
		}
		return env, diag.Problems{{Pos: at, Code: code, Message: err.Error()}}
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

// parse reads lines of NAME=value. A value may stand in double quotes, with \n, \t, \" and
// \\ in it, or in single quotes, as it is. Lines that are empty or begin with # mean nothing.
func parse(file, text, code string) (map[string]string, diag.Problems) {
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
		case !IsName(name):
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
