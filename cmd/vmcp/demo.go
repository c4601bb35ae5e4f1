package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/examples/backends/workspace"
	"github.com/vmcp-dev/vmcp/examples/backends/yamlfile"
	"github.com/vmcp-dev/vmcp/examples/demo"
)

// demoBackends are the example servers that this program runs as child processes of itself.
var demoBackends = map[string]func(context.Context, []string) error{
	"workspace": workspace.Main,
	"yamlfile":  yamlfile.Main,
}

func (a *app) demoBackend() *cobra.Command {
	return &cobra.Command{
		Use:                "demo-backend NAME [ARGUMENT...]",
		Short:              "run one of the demo's backends on standard input and output",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			serve, ok := demoBackends[args[0]]
			if !ok {
				return usageError("demo-backend: want workspace or yamlfile, have " + args[0])
			}
			return serve(c.Context(), args[1:])
		},
	}
}

// demo writes the files of the demo into a folder of the user and returns its configuration.
func (a *app) demo() (source, error) {
	self, err := os.Executable()
	if err != nil {
		return source{}, fmt.Errorf("demo: where is this program: %w", err)
	}
	dir, remove, err := demoDir()
	if err != nil {
		return source{}, fmt.Errorf("demo: %w", err)
	}
	if err := demo.Write(dir); err != nil {
		remove()
		return source{}, fmt.Errorf("demo: %w", err)
	}
	a.say("no %s here: serving the built-in demo, its files are in %s", defaultFile, dir)
	return source{path: filepath.Join(dir, defaultFile), demo: true, remove: remove, load: func(name string) (*config.Config, error) {
		return config.Parse(name, demo.Config(self, dir))
	}}, nil
}

// demoDir is a folder in the user's cache, or if there is none a temporary one that
// remove deletes.
func demoDir() (dir string, remove func(), err error) {
	cache, err := os.UserCacheDir()
	if err == nil {
		dir = filepath.Join(cache, "vmcp", "demo")
		if err = os.MkdirAll(dir, 0o755); err == nil {
			return dir, func() {}, nil
		}
	}
	dir, err = os.MkdirTemp("", "vmcp-demo-")
	return dir, func() { _ = os.RemoveAll(dir) }, err // what cannot be removed the system does
}

// tryCommand is a command to paste that calls the demo's scripted tool.
func tryCommand(endpoint, tokenFile string) string {
	words := []string{ownCommand(), "call", demo.Tool, "--args", "'" + demo.Arguments + "'"}
	if endpoint != cli.DefaultURL {
		words = append(words, "--url", endpoint)
	}
	if tokenFile != "" {
		words = append(words, "--token-file", tokenFile)
	}
	return strings.Join(words, " ")
}

// ownCommand is the command that starts this program.
func ownCommand() string {
	self, err := os.Executable()
	if err != nil {
		return "vmcp"
	}
	if strings.Contains(filepath.ToSlash(self), "/go-build") { // started by go run, gone when it ends
		return "go run ./cmd/vmcp"
	}
	if strings.ContainsRune(os.Args[0], filepath.Separator) {
		return os.Args[0]
	}
	return "vmcp"
}
