package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

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
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.out, "vmcp %s (%s, %s/%s)\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// buildVersion is what version prints, and clients and backends are told.
var buildVersion = release.Version
