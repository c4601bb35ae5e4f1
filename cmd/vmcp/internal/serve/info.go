package serve

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"

	"github.com/vmcp-dev/vmcp/config"
)

// This part of the package has the commands about the program itself: its version, the schema of its configuration, and
// its manual.

// Env is what the commands need of the program.
type Env struct {
	Out    io.Writer
	JSON   func(v any) error            // prints a value as JSON
	Output func(*cobra.Command) *string // adds --output
}

// Commands returns schema, version and man.
func Commands(e Env) []*cobra.Command {
	return []*cobra.Command{e.schema(), e.version(), e.man()}
}

func (e Env) schema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "print the JSON Schema of the configuration file",
		Long: `Schema prints the JSON Schema of vmcp.yaml. Editors complete and check with it: with the
YAML language server, put this line on top of the file:

  # yaml-language-server: $schema=vmcp.schema.json`,
		Example: "  vmcp schema > vmcp.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := e.Out.Write(config.Schema())
			return err
		},
	}
}

func (e Env) version() *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Long: `Version prints the version on one line. As JSON it also prints the commit and its date;
both are empty in a binary that was built outside of its repository.` + cli.Of(cli.Build{}),
		Args: cobra.NoArgs,
	}
	output := e.Output(c)
	c.RunE = func(*cobra.Command, []string) error {
		b := cli.Read()
		if *output == "json" {
			return e.JSON(b)
		}
		_, err := fmt.Fprintf(e.Out, "vmcp %s (%s, %s/%s)\n", b.Version, b.Go, b.OS, b.Arch)
		return err
	}
	return c
}

// man returns the command that writes manual pages, for packagers.
func (e Env) man() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "write a manual page for each command",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			b := cli.Read()
			header := &doc.GenManHeader{Section: "1", Source: "vmcp " + b.Version, Manual: "vmcp manual"}
			if at, err := time.Parse(time.RFC3339, b.Date); err == nil {
				header.Date = &at // else SOURCE_DATE_EPOCH, else today
			}
			root := c.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, header, args[0])
		},
	}
}
