package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vmcp-dev/vmcp/config"
)

// The environment and files of variables.

// configVariable is the environment variable with the default of --config.
const configVariable = "VMCP_CONFIG"

// defaultConfig sets --config to the value of VMCP_CONFIG, unless it is given, or a flag that is
// mutually exclusive with it.
func defaultConfig(c *cobra.Command) error {
	value, f := os.Getenv(configVariable), c.Flags().Lookup("config")
	if value == "" || f == nil || f.Changed || excluded(c, f) {
		return nil
	}
	return f.Value.Set(value) // not Flags().Set, which would mark the flag as given
}

// mutuallyExclusive is the annotation in which cobra stores the groups of MarkFlagsMutuallyExclusive.
const mutuallyExclusive = "cobra_annotation_mutually_exclusive"

// excluded reports whether a flag is given that is mutually exclusive with f.
func excluded(c *cobra.Command, f *pflag.Flag) bool {
	for _, group := range f.Annotations[mutuallyExclusive] {
		for name := range strings.FieldsSeq(group) {
			if name != f.Name && c.Flags().Changed(name) {
				return true
			}
		}
	}
	return false
}

// registerEnvFile adds --env-file to a command that reads a configuration.
func (a *app) registerEnvFile(c *cobra.Command) {
	c.Flags().StringVar(&a.envFile, "env-file", "", "the file with variables for the configuration (default "+config.EnvFile+" beside it)")
	_ = c.MarkFlagFilename("env-file", "env") // the flag exists
}

// checkEnvFile refuses a file of variables that cannot be read. Syntax errors in it are problems with
// positions.
func (a *app) checkEnvFile() error {
	if a.envFile == "" {
		return nil
	}
	if _, err := os.Stat(a.envFile); err != nil {
		return fmt.Errorf("--env-file: %w", err)
	}
	return nil
}
