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

The exact style does what the legacy engine did, quirks included; the clean style is what a
person would have written. What deserves a person's eye goes to standard error with its place
in the YAML.

Write looks at all files before it writes the first. A file that is there already with the
same content is fine; one with another is not written over.`,
		Example: `  vmcp migrate-composite deploy --style clean
  vmcp migrate-composite -f composites.yaml --all --output scripted-tools
  vmcp migrate-composite --all --write scripts
  vmcp migrate-composite -f manifests/ --all --style clean --write scripts
  vmcp migrate-composite --verify cases/`,
	}
	f := c.Flags()
	f.StringSliceVarP(&m.Files, "file", "f", []string{defaultFile}, "where the workflows are: files, folders of .yaml and .yml, - for standard input")
	f.BoolVar(&m.All, "all", false, "migrate every workflow of the file")
	f.StringVar(&m.Style, "style", string(migrate.Exact), "exact: what the legacy engine did; clean: what a person would have written")
	f.StringVarP(&m.Output, "output", "o", "script", "what is printed: script, or scripted-tools for entries of a configuration")
	f.StringVar(&m.Write, "write", "", "write the scripts into this folder, and the configuration that uses them next to the old one")
	f.BoolVar(&m.Fix, "fix", false, "migrate what a definition means where the legacy engine refused it")
	f.StringVar(&m.Cases, "verify", "", "run recorded cases (a file or a folder) against the scripts and show what differs")
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
