package setup

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/clients"

	"github.com/vmcp-dev/vmcp/internal/files"
)

// others returns the entries that --replace removes: all but that of vmcp. It is an error if the endpoint's
// configuration lacks one of these servers.
func (r *run) others(o *outcome, f *file) (others []string, err error) {
	if !r.replace {
		return nil, nil
	}
	all, err := clients.Names(f.name, f.data, dialects[o.Client].shape)
	if err != nil {
		return nil, err
	}
	others = slices.DeleteFunc(unique(all), func(name string) bool { return name == r.name })
	if len(others) == 0 {
		return nil, nil
	}
	options := config.ClientOptions(f.name, r.project)
	options.Client = o.Client
	c, err := clients.Read(f.name, f.data, options)
	if err != nil {
		return nil, err
	}
	name := r.config
	if name == "" {
		name = r.DefaultFile
	}
	served, err := backends(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.WithHint(fmt.Errorf("--replace: %s: no such file; want a configuration with the client's servers", name), "vmcp import --from "+o.Client+" --write "+name)
	}
	if err != nil {
		return nil, err
	}
	var missing []string
	known := variables(name)
	for _, s := range c.Servers {
		if strings.Contains(s.Command, "/") && !filepath.IsAbs(s.Command) && !strings.HasPrefix(s.Command, "${") {
			s.Command = filepath.Join(options.Workspace, s.Command) // as vmcp import writes it
		}
		if !s.Ignored && (s.Skipped != "" || !slices.ContainsFunc(served, func(b clients.Server) bool { return same(&b, &s, known) })) {
			missing = append(missing, s.Name)
		}
	}
	if len(missing) > 0 {
		return nil, cli.WithHint(fmt.Errorf("--replace: %s does not have %s", name, strings.Join(missing, ", ")), "vmcp import --from "+o.Client+" --write "+name)
	}
	return others, nil
}

// same reports whether two servers start the same program or call the same URL. Secrets in one may be variables in the other.
func same(a, b *clients.Server, known func(text string) string) bool {
	return known(a.URL) == known(b.URL) && a.Command == b.Command && slices.EqualFunc(a.Args, b.Args, func(x, y string) bool { return known(x) == known(y) })
}

// variable matches a variable with its default; one after a further $ is escaped.
var variable = regexp.MustCompile(`(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// variables returns a function that expands variables, from the environment and from the vmcp.env beside a configuration.
func variables(name string) func(text string) string {
	set, _ := config.ReadVariables(filepath.Join(filepath.Dir(name), config.EnvFile)) // without the file only the environment counts
	return func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(whole string) string {
			m := variable.FindStringSubmatch(whole)
			value := cmp.Or(os.Getenv(m[2]), set[m[2]], m[4])
			if m[1] != "" || value == "" {
				return whole
			}
			return value
		})
	}
}

// backends returns those of the endpoint's configuration, with its variables unexpanded.
func backends(name string) ([]clients.Server, error) {
	data, err := files.Read(name, config.MaxFile)
	if err != nil {
		return nil, err
	}
	if clients.Is(data) {
		c, err := clients.Read(name, data, config.ClientOptions(name, ""))
		if err != nil {
			return nil, err
		}
		return c.Servers, nil
	}
	var cfg struct {
		Backends []struct {
			URL, Command string
			Args         []string
		}
	}
	if err := yaml.Unmarshal(data, &cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var all []clients.Server
	for _, b := range cfg.Backends {
		all = append(all, clients.Server{URL: b.URL, Command: b.Command, Args: b.Args})
	}
	return all, nil
}

// errRefused is returned when the person does not agree.
var errRefused = errors.New("nothing is written")

// confirm asks whether the client's other servers may be removed, if there is a terminal to ask at.
func (r *run) confirm(o *outcome) error {
	if !r.Terminal {
		return nil
	}
	f, err := read(o.File)
	if err != nil {
		return err
	}
	others, err := r.others(o, f)
	if err != nil || len(others) == 0 {
		return err
	}
	r.Tell("%s: %s", f.name, strings.Join(others, ", "))
	r.Tell("these servers are removed from the file; --undo restores them. Continue? [y/N]")
	answer, _ := bufio.NewReader(r.In).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errRefused
	}
	return nil
}
