package serve

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
)

// KnownCommand returns an error for an argument that is not the name of a subcommand.
func KnownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), c.Root().Name())+" "+args[0]))
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return cli.WithHint(err, fmt.Sprintf("did you mean %q?", near[0]))
	}
	return cli.WithHint(err, fmt.Sprintf("\"%s --help\" lists the commands", c.CommandPath()))
}

// StrictHelp makes the help command of a root return an error for an unknown command. Cobra's own prints the usage and succeeds.
func StrictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() != "help" {
			continue
		}
		show := c.Run
		c.Run = nil
		c.RunE = func(c *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 && (about.HasSubCommands() || !about.Runnable()) {
				return KnownCommand(about, rest)
			}
			show(c, args)
			return nil
		}
	}
}
