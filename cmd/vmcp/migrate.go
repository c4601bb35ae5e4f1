package main

import (
	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/migration"
	"github.com/vmcp-dev/vmcp/migrate"
)

func (a *app) migrate() *cobra.Command {
	m := &migration.Migration{In: a.in, Out: a.out, Say: a.say}
	c := &cobra.Command{
		Use:   "migrate-composite [NAME...]",
		Short: "turn legacy YAML workflows into scripts",
		Long: `Migrate-composite reads workflows in ToolHive's YAML format from a configuration with
compositeTools, from one definition or from Kubernetes manifests, and prints each as a script.

The exact style behaves like the legacy engine, quirks included; the clean style is idiomatic.
Notes for review go to standard error with their positions in the YAML.

--write checks all files before it writes the first. An existing file with other content
is not overwritten.`,
		Example: `  vmcp migrate-composite deploy --style clean
  vmcp migrate-composite -f composites.yaml --all --output scripted-tools
  vmcp migrate-composite --all --write scripts
  vmcp migrate-composite -f manifests/ --all --style clean --write scripts
  vmcp migrate-composite --verify cases/`,
	}
	f := c.Flags()
	f.StringSliceVarP(&m.Files, "file", "f", []string{defaultFile}, "the workflows: files, folders of .yaml and .yml files, - for standard input")
	f.BoolVar(&m.All, "all", false, "migrate every workflow of the file")
	f.StringVar(&m.Style, "style", string(migrate.Exact), "exact: the behaviour of the legacy engine; clean: idiomatic scripts")
	f.StringVarP(&m.Output, "output", "o", "script", "the format of the output: script, or scripted-tools for entries of a configuration")
	f.StringVar(&m.Write, "write", "", "write the scripts into this folder, and the configuration that uses them next to the old one")
	f.BoolVar(&m.Fix, "fix", false, "migrate the intended meaning of definitions that the legacy engine refused")
	f.StringVar(&m.Cases, "verify", "", "run recorded cases (a file or a folder) against the scripts and show the differences")
	c.RunE = func(c *cobra.Command, names []string) error {
		if f.Changed("write") && m.Write == "" {
			return usageError("--write: want a folder")
		}
		if err := m.Check(f.Changed("output")); err != nil {
			return err
		}
		if m.Cases != "" {
			return m.Verify(c.Context(), f.Changed("file"), names)
		}
		return m.Run(names)
	}
	return c
}
