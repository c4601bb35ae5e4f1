package connect

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/usage"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/config/clients/entry"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// others are the entries that --replace takes out: all but the own one. It is an error if the endpoint's
// configuration lacks one of them.
func (r *run) others(o *outcome, f *file) (others []string, err error) {
	if !r.replace {
		return nil, nil
	}
	all, err := entry.Names(f.name, f.data, dialects[o.Client].shape)
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
		return nil, usage.WithHint(fmt.Errorf("--replace: %s: no such file: it would have to have the client's servers", name), "vmcp import --from "+o.Client+" --write "+name)
	}
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, s := range c.Servers {
		if !s.Ignored && (s.Skipped != "" || !slices.ContainsFunc(served, func(b clients.Server) bool { return same(&b, &s) })) {
			missing = append(missing, s.Name)
		}
	}
	if len(missing) > 0 {
		return nil, usage.WithHint(fmt.Errorf("--replace: %s does not have %s", name, strings.Join(missing, ", ")), "vmcp import --from "+o.Client+" --write "+name)
	}
	return others, nil
}

// same reports whether two servers are started or called the same way. Secrets may have moved.
func same(a, b *clients.Server) bool {
	return a.URL == b.URL && a.Command == b.Command && slices.Equal(a.Args, b.Args)
}

// backends are those of the endpoint's configuration, as it writes them.
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

// errRefused is the answer of somebody who was asked.
var errRefused = errors.New("nothing is written")

// confirm asks whether the client's servers shall go, where somebody can be asked.
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
	r.Tell("these servers go out of the file; --undo brings them back. Go on? [y/N]")
	answer, _ := bufio.NewReader(r.In).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errRefused
	}
	return nil
}
