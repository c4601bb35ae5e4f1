package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/release"
	"github.com/vmcp-dev/vmcp/config"
)

func (a *app) schema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "print the JSON Schema of the configuration file",
		Long: `Schema prints the JSON Schema of vmcp.yaml. Editors complete and check with it: with the
YAML language server, put this line on top of the file:

  # yaml-language-server: $schema=vmcp.schema.json`,
		Example: "  vmcp schema > vmcp.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(config.Schema())
			return err
		},
	}
}

func (a *app) version() *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Long: `Version prints which vmcp this is, on one line. With --output json it is an object with the
members version, commit, date (of the commit), dirty, go, os and arch; commit and date are empty
in a binary that was built without its repository.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		b := release.Read()
		if *output == "json" {
			return a.printJSON(b)
		}
		_, err := fmt.Fprintf(a.out, "vmcp %s (%s, %s/%s)\n", b.Version, b.Go, b.OS, b.Arch)
		return err
	}
	return c
}

// buildVersion is what version prints, and clients and backends are told.
var buildVersion = release.Version

// man writes the manual, for those who make packages.
func (a *app) man() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "write a manual page for each command",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			b := release.Read()
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
