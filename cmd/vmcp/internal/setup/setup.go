// Package setup has the commands that write configurations: vmcp import, add, remove, init and connect.
package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// Env is what the commands need of the program that they are part of.
type Env struct {
	Out         io.Writer
	DefaultFile string
	// Tell writes a message for a person; JSON a result; Output adds --output to a command.
	Tell   func(format string, args ...any)
	JSON   func(v any) error
	Output func(*cobra.Command) *string
	// Found is returned when a problem has been reported already: exit code 1.
	Found error
	// Offers connects to the backends of a configuration and returns what they offer.
	Offers func(ctx context.Context, cfg *config.Config) (*lock.File, error)
}

// Commands returns the commands of this package.
func Commands(e Env) []*cobra.Command {
	return []*cobra.Command{initialize(e), importing(e), add(e), remove(e)}
}

// edited is a configuration file that a command changes.
type edited struct {
	name string
	data []byte
	new  bool
	set  map[string]string // variables that are about to be written to vmcp.env
}

func open(name string) (*edited, error) {
	data, err := files.Read(name, config.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return &edited{name: name, new: true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if clients.Is(data) {
		return nil, cli.WithHint(fmt.Errorf("%s is the configuration of another program, which vmcp never writes", name), "vmcp import "+name+" --write vmcp.yaml")
	}
	return &edited{name: name, data: data}, nil
}

// write replaces the file if the new text is empty, or a configuration without problems; variables
// without a value are no problem.
func (f *edited) write(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return files.Replace(f.name, data)
	}
	if err := f.check(data); err != nil {
		return err
	}
	if f.new {
		return newFile(f.name, data, 0o644)
	}
	return files.Replace(f.name, data)
}

// check returns the problems that a configuration would have.
func (f *edited) check(data []byte) error {
	env := func(name string) (string, bool) {
		if value, ok := f.set[name]; ok {
			return value, true
		}
		return anyVariable(name)
	}
	if _, problems := config.ReadWith(f.name, data, env); len(problems) > 0 {
		if wrong, _ := problems.Split(); len(wrong) > 0 {
			return fmt.Errorf("%s is not changed, since it would have problems:\n%w", f.name, wrong)
		}
	}
	return nil
}

// anyVariable is an environment in which every variable has a value, except unset ones of vmcp itself.
func anyVariable(name string) (string, bool) {
	switch value, ok := os.LookupEnv(name); {
	case ok || strings.HasPrefix(name, "VMCP_"):
		return value, ok
	case strings.Contains(strings.ToUpper(name), "URL"):
		return "http://not-set-yet.invalid/", true
	}
	return "not-set-yet", true
}

// newFile writes a file that must not exist.
func newFile(name string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// ignoreSecrets adds vmcp.env to a .gitignore, if that exists.
func ignoreSecrets(folder string) error {
	name := filepath.Join(folder, ".gitignore")
	data, err := files.Read(name, config.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		if strings.TrimSpace(line) == config.EnvFile {
			return nil
		}
	}
	newline := "\n"
	if strings.Contains(string(data), "\r\n") {
		newline = "\r\n"
	}
	text := string(data)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += newline
	}
	return files.Replace(name, []byte(text+config.EnvFile+newline))
}
