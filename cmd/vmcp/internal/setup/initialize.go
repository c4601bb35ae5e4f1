package setup

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

//go:embed init/vmcp.yaml
var initialConfig []byte

//go:embed init/hello.star
var initialScript []byte

func initialize(e Env) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "init [FOLDER]",
		Short: "create a configuration",
		Long: `Init writes a vmcp.yaml with comments, a first scripted tool, tools/hello.star, and a .gitignore
with vmcp.env, the file for secrets. Existing files are kept, except vmcp.yaml with
--force. It prints the clients whose servers "vmcp import" can import.`,
		Example: "  vmcp init\n  vmcp init office",
		Args:    cobra.MaximumNArgs(1),
	}
	c.Flags().BoolVar(&force, "force", false, "overwrite an existing vmcp.yaml")
	c.RunE = func(_ *cobra.Command, args []string) error {
		folder := "."
		if len(args) > 0 {
			folder = args[0]
		}
		return e.initialize(folder, force)
	}
	return c
}

func (e Env) initialize(folder string, force bool) error {
	main := filepath.Join(folder, "vmcp.yaml")
	if _, err := os.Lstat(main); err == nil && !force {
		return cli.WithHint(fmt.Errorf("%s exists already", main), "--force overwrites it")
	}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{main, initialConfig},
		{filepath.Join(folder, "tools", "hello.star"), initialScript},
		{filepath.Join(folder, ".gitignore"), []byte(config.EnvFile + "\n")},
	} {
		err := newFile(f.name, f.data, 0o644)
		if errors.Is(err, fs.ErrExist) && f.name == main {
			err = files.Replace(f.name, f.data)
		}
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return err
		}
		fmt.Fprintln(e.Out, f.name)
	}
	if err := ignoreSecrets(folder); err != nil {
		return err
	}
	for _, p := range found() {
		e.Tell("%s has servers in %s: vmcp import --from %s --write %s", p.client, p.file, p.client, main)
	}
	return nil
}
