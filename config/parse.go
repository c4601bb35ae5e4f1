package config

import (
	_ "embed"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/config/internal/document"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// MaxFile bounds a configuration file, in bytes; real ones, with inline scripts, are far smaller.
const MaxFile = 4 << 20

// Load reads and checks a configuration file. The error is diag.Problems for problems of its
// content.
func Load(path string) (*Config, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// ReadFile reads the content of a configuration file. The error is diag.Problems if it is too large
// or not a regular file.
func ReadFile(path string) ([]byte, error) {
	data, err := files.Read(path, clients.MaxFile)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return data, err
	}
	return nil, diag.Problems{{Pos: diag.Pos{File: diag.File(path), Line: 1, Column: 1}, Code: code, Message: err.Error()}}
}

// Parse checks the content of a configuration file and returns it complete: defaults
// set, ${NAME} replaced from the environment, relative paths made absolute. The error is
// diag.Problems with all problems. The filename is for messages, and paths in the file are
// relative to its folder.
func Parse(filename string, data []byte) (*Config, error) {
	return parse(filename, data, os.LookupEnv)
}

func parse(filename string, data []byte, env func(string) (string, bool)) (*Config, error) {
	c, problems := read(filename, data, env)
	if problems, _ = problems.Split(); len(problems) > 0 {
		return nil, problems
	}
	return c, nil
}

// Read is Parse for checks: it returns what could be read even if there are errors, nil only if
// nothing could be read, and problems of every severity.
func Read(filename string, data []byte) (*Config, diag.Problems) {
	return read(filename, data, os.LookupEnv)
}

// ReadWith is Read with another environment than that of the process.
func ReadWith(filename string, data []byte, env func(name string) (value string, ok bool)) (*Config, diag.Problems) {
	return read(filename, data, env)
}

func read(filename string, data []byte, env func(string) (string, bool)) (*Config, diag.Problems) {
	return readBeside(filename, data, env, filepath.Join(folder(filename), EnvFile))
}

// ReadBeside is Read with another file of variables than the vmcp.env beside the configuration.
func ReadBeside(filename string, data []byte, envFile string) (*Config, diag.Problems) {
	return readBeside(filename, data, os.LookupEnv, envFile)
}

func readBeside(filename string, data []byte, env func(string) (string, bool), beside string) (*Config, diag.Problems) {
	env, envProblems := below(env, beside, code)
	c, problems := readWith(filename, data, env)
	if c != nil {
		c.envFiles = append(c.envFiles, beside)
	}
	return c, append(problems, envProblems...)
}

func readWith(filename string, data []byte, env func(string) (string, bool)) (*Config, diag.Problems) {
	if clients.Is(data) {
		return readClients(filename, data, env)
	}
	d, c := document.New(filename, strict), &Config{}
	if !d.Decode(data, MaxFile, c) {
		return nil, d.Problems.Sorted()
	}
	c.written, _ = json.Marshal(c) // nil if the file has values that JSON has not: they are problems
	v := &validator{Validator{Document: d, Env: env, Dir: folder(filename)}}
	v.config(c)
	c.expanded, c.named, c.warnings = v.Secrets, v.Named, v.Warnings.Sorted()
	c.places, c.origins, c.problems = d.Places, d.Origins, d.Problems
	c.Complete()
	return c, append(d.Problems, v.Warnings...).Sorted()
}

func folder(filename string) string {
	abs, err := filepath.Abs(filename)
	if err != nil { // the working directory is gone; messages will show the relative path
		return filepath.Dir(filename)
	}
	return filepath.Dir(abs)
}

// EnvFile is the name of the file, in the folder of a configuration, with variables for it: lines of
// NAME=value. The environment of the process takes precedence.
const EnvFile = "vmcp.env"

// ReadVariables reads a file of variables, lines of NAME=value. The error is diag.Problems for
// syntax errors.
func ReadVariables(name string) (map[string]string, error) {
	variables, problems, err := envfileRead(name, code)
	if err != nil {
		return nil, err
	}
	return variables, problems.Err()
}

// Address expands the variables in an address of a configuration, such as listen, as far as they are set in this process;
// "" if the result is no address.
func Address(filename, text string) string {
	env, _ := below(os.LookupEnv, filepath.Join(folder(filename), EnvFile), code)
	v := &Validator{Document: document.New(filename, strict), Env: env, Lenient: true}
	if text = v.Address("listen", text); len(v.Document.Problems) > 0 {
		return ""
	}
	return text
}

//go:embed schema.json
var schemaJSON []byte

// Schema returns the JSON Schema of the configuration file, for editors.
func Schema() []byte { return slices.Clone(schemaJSON) }
