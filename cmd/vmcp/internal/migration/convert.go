package migration

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/toolhive"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// This part of the package is the command vmcp convert: it converts manifests of ToolHive into manifests of vmcp.

// Command returns the command. It prints manifests on out, and what could not be converted through say, a line each.
func Command(in io.Reader, out io.Writer, say func(format string, args ...any)) *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:   "convert --from toolhive [FILE...]",
		Short: "convert manifests of ToolHive's objects to vmcp's",
		Long: `Convert reads manifests of ToolHive's Virtual MCP servers, their backends and composite tools,
from files or standard input, and prints manifests of vmcp.dev/v1alpha1 in the same order.
Comments are not kept. Backends are those that the files describe, at the addresses that
ToolHive's operator gives them; groups are only names, and have no object.

Each field that cannot be converted is reported on standard error with its position. If authentication or
authorization would be lost nothing is printed, and the exit code is 1.

ToolHive's objects can be served without conversion: a VirtualMCPServer of vmcp can refer to one
of ToolHive in spec.from.toolhive.`,
		Example: `  vmcp convert --from toolhive toolhive.yaml > vmcp-objects.yaml
  kubectl get virtualmcpservers.toolhive.stacklok.dev,mcpservers.toolhive.stacklok.dev -o yaml |
    vmcp convert --from toolhive`,
		RunE: func(_ *cobra.Command, names []string) error {
			if from != "toolhive" {
				return cli.Error(fmt.Sprintf("--from: want toolhive, have %q", from))
			}
			manifests, err := read(names, in)
			if err != nil {
				return err
			}
			return write(toolhive.Convert(manifests), out, say)
		},
	}
	c.Flags().StringVar(&from, "from", "", "the product whose `objects` the files have: toolhive")
	return c
}

// read reads the files; standard input where none is named, and for -.
func read(names []string, in io.Reader) ([]toolhive.File, error) {
	if len(names) == 0 {
		names = []string{"-"}
	}
	var all []toolhive.File
	for _, name := range names {
		var data []byte
		var err error
		if name == "-" {
			name = "stdin"
			data, err = io.ReadAll(io.LimitReader(in, config.MaxFile+1)) // one byte more than allowed is reported as too large
		} else {
			data, err = files.Read(name, config.MaxFile)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, toolhive.File{Name: name, Data: data})
	}
	return all, nil
}

// write prints a conversion.
func write(c *toolhive.Conversion, out io.Writer, say func(format string, args ...any)) error {
	for _, n := range c.Notes {
		say("%s", n)
	}
	for _, n := range c.Lost {
		say("%s", n)
	}
	if len(c.Lost) > 0 {
		return errors.New("nothing is converted: the fields in the last lines would be lost")
	}
	if len(c.Manifests) == 0 {
		return errors.New("nothing is converted: the files have no VirtualMCPServer and no backends")
	}
	_, err := out.Write(c.Manifests)
	return err
}
