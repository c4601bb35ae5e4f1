package setup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/display"
)

// addFlags are the flags of the add command.
type addFlags struct {
	config       string
	env, headers []string
	cwd          string
	transport    string
	prefix       string
	secrets      string
	noCheck      bool
}

func add(e Env) *cobra.Command {
	var f addFlags
	c := &cobra.Command{
		Use:   "add NAME {URL | -- COMMAND [ARG...]}",
		Short: "add a backend to the configuration",
		Long: `Add appends one backend to those of the configuration, and keeps every other byte of the file;
if there is no file it creates one. Unless --no-check is given, the backend is then started and its
tools are counted. A backend that does not start is added, too, and the reason is printed.

Values may contain environment variables, ${NAME}. Secrets are written to vmcp.env beside the
configuration, readable by its owner only, and the configuration refers to them as variables; with --secrets
inline they are written to the configuration. Remove keeps them in vmcp.env.`,
		Example: "  vmcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes\n  vmcp add tickets https://mcp.example.com/mcp --header 'Authorization=Bearer ${TICKETS_TOKEN}'",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("want the name of the backend, and its URL or, behind --, its command")
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.config, "config", e.DefaultFile, "the configuration file")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	flags.StringArrayVar(&f.env, "env", nil, "a variable of the command, NAME=VALUE; repeatable")
	flags.StringArrayVar(&f.headers, "header", nil, "a header of requests to the URL, NAME=VALUE; repeatable")
	flags.StringVar(&f.cwd, "cwd", "", "the working directory of the command")
	flags.StringVar(&f.transport, "transport", "", "sse, for a URL of the older HTTP+SSE transport")
	flags.StringVar(&f.prefix, "prefix", "", "the prefix of the names of its tools")
	secretsFlag(c, &f.secrets)
	flags.BoolVar(&f.noCheck, "no-check", false, "do not start it")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := checkSecrets(f.secrets); err != nil {
			return err
		}
		b, err := f.backend(args, c.ArgsLenAtDash() >= 0)
		if err != nil {
			return err
		}
		if flags.Changed("prefix") {
			b.Prefix = &f.prefix
		}
		return e.add(c.Context(), f, b)
	}
	return c
}

// backend makes a backend of the arguments: a URL, or a command after --.
func (f *addFlags) backend(args []string, dashed bool) (config.EditedBackend, error) {
	b := config.EditedBackend{Name: args[0], Transport: f.transport, Cwd: f.cwd}
	var err error
	if b.Env, err = pairs("--env", f.env); err != nil {
		return b, err
	}
	if b.Headers, err = pairs("--header", f.headers); err != nil {
		return b, err
	}
	isURL := strings.HasPrefix(args[1], "http://") || strings.HasPrefix(args[1], "https://")
	switch {
	case !dashed && isURL && len(args) == 2:
		b.URL = args[1]
	case !dashed && isURL:
		return b, cli.Error("a URL takes no arguments; write a command after --")
	case !dashed:
		return b, cli.Error(fmt.Sprintf("%q is not a URL; write a command after --", args[1]))
	default:
		b.Command = args[1]
		for _, arg := range args[2:] {
			b.Args = append(b.Args, literal(arg))
		}
	}
	return b, nil
}

// literal escapes ${ in an argument that holds it and no valid variable, such as the code of a script.
func literal(arg string) string {
	if _, problems := config.ReadWith("", fmt.Appendf(nil, "backends: [{name: x, command: x, args: [%q]}]", arg), anyVariable); len(problems) > 0 {
		return strings.ReplaceAll(arg, "${", "$${")
	}
	return arg
}

func pairs(flag string, all []string) (map[string]string, error) {
	out := map[string]string{}
	for _, pair := range all {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, cli.Error(fmt.Sprintf("%s %q: want NAME=VALUE", flag, pair))
		}
		out[name] = value
	}
	return out, nil
}

func (e Env) add(ctx context.Context, f addFlags, b config.EditedBackend) error {
	file, err := open(f.config)
	if err != nil {
		return err
	}
	r := newImport(f.secrets)
	if err := r.readVariables(filepath.Dir(f.config)); err != nil {
		return err
	}
	notes := r.hide(&b)
	r.add = []config.EditedBackend{b}
	data, err := r.apply(file)
	if err != nil {
		return err
	}
	if err := r.put(e, file, data); err != nil {
		return err
	}
	for _, note := range notes {
		e.Tell("%s", note)
	}
	if f.noCheck {
		return nil
	}
	e.tryOut(ctx, f.config, b.Name, data)
	return nil
}

// tryOut connects to one backend of a configuration and reports the result. Problems of the other backends
// are ignored.
func (e Env) tryOut(ctx context.Context, name, backend string, data []byte) {
	cfg, problems := config.Read(name, data)
	if cfg == nil {
		e.Tell("%v", problems)
		return
	}
	i := slices.IndexFunc(cfg.Backends, func(b config.Backend) bool { return b.Name == backend })
	wrong, _ := problems.Split()
	for _, p := range wrong {
		if strings.HasPrefix(p.Path, fmt.Sprintf("backends[%d]", i)) {
			e.Tell("%s was added, but does not start: %s", backend, p.Message)
			return
		}
	}
	cfg.Backends = cfg.Backends[i : i+1]
	offers, err := e.Offers(ctx, cfg)
	if err != nil {
		e.Tell("%s was added, but does not start: %v", backend, err)
		return
	}
	tools := 0
	for _, n := range offers.Names() {
		if n.Kind == lock.Tool {
			tools++
		}
	}
	e.Tell("%s: %d tools", backend, tools)
}

func remove(e Env) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:     "remove NAME",
		Short:   "remove a backend from the configuration",
		Long:    "Remove removes one backend from the configuration and keeps every other byte of the file: right\nafter add it is as it was before.",
		Example: "  vmcp remove tickets",
		Args:    cobra.ExactArgs(1),
	}
	c.Flags().StringVar(&file, "config", e.DefaultFile, "the configuration file")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	c.RunE = func(_ *cobra.Command, args []string) error {
		f, err := open(file)
		if err != nil {
			return err
		}
		if f.new {
			return fmt.Errorf("%s: no such file", file)
		}
		data, err := config.Remove(f.data, args[0])
		if errors.Is(err, config.ErrNone) {
			return e.unknown(f, args[0])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		return f.write(data)
	}
	return c
}

func (e Env) unknown(f *edited, name string) error {
	names, err := config.Names(f.data)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: there is no backend %q%s", f.name, name, display.Hint(name, names))
}
