package config

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/config/internal/envfile"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// MaxFile bounds a configuration file; inline scripts included, real ones stay far below.
const MaxFile = 4 << 20

// Load reads and checks a configuration file. What is wrong in the file comes back
// as diag.Problems.
func Load(path string) (*Config, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// ReadFile reads the text of a configuration file. The error is diag.Problems when there
// is something else than a file of a configuration's size.
func ReadFile(path string) ([]byte, error) {
	data, err := files.Read(path, clients.MaxFile)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return data, err
	}
	return nil, diag.Problems{{Pos: diag.Pos{File: diag.File(path), Line: 1, Column: 1}, Code: code, Message: err.Error()}}
}

// Parse checks the text of a configuration file and returns it complete: defaults
// set, ${NAME} replaced from the environment, relative paths made absolute. All
// problems come back at once, as diag.Problems. The filename is for messages, and its
// folder is what paths in the file are relative to.
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

// Read is Parse for those who look for mistakes: it returns what could be read even when
// something in it is wrong, nil only when nothing could, and the warnings among the problems.
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
	env, envProblems := envfile.Below(env, beside, code)
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
	c.written, _ = json.Marshal(c) // nil where the file holds what JSON cannot: it has problems then
	v := &validator{Document: d, env: env, dir: folder(filename)}
	v.config(c)
	c.expanded, c.named, c.warnings = v.secrets, v.named, v.warnings.Sorted()
	c.places, c.origins, c.partial = d.Places, d.Origins, len(d.Problems) > 0
	c.Complete()
	return c, append(d.Problems, v.warnings...).Sorted()
}

func folder(filename string) string {
	abs, err := filepath.Abs(filename)
	if err != nil { // the working directory is gone; messages will show the relative path
		return filepath.Dir(filename)
	}
	return filepath.Dir(abs)
}
