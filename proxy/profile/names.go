package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
)

// Path is what the paths of profiles begin with, before the name.
const Path = "/mcp/"

// In is the profile that a path of the endpoint names; "" is none.
func In(path string) string {
	_, name, _ := strings.Cut(path, Path)
	return name
}

// Names are those of the profiles of a configuration, in its order.
type Names []string

// NamesOf are those of a configuration.
func NamesOf(cfg *config.Config) (all Names) {
	for _, p := range cfg.Profiles {
		all = append(all, p.Name)
	}
	return all
}

// CheckPath refuses a path of the endpoint that is neither its own nor that of a profile.
func (n Names) CheckPath(path string) error {
	err := n.Check(In(path))
	if path == Path {
		err = errors.New("want the name of a profile behind it")
	}
	if err != nil {
		return fmt.Errorf("nothing is served at %s: %w", path, err)
	}
	return nil
}

// Check refuses the name of a profile that there is not; "" is none, and good.
func (n Names) Check(name string) error {
	switch {
	case name == "" || slices.Contains(n, name):
		return nil
	case len(n) == 0:
		return fmt.Errorf("no profile %q: the configuration has none", name)
	}
	return fmt.Errorf("no profile %q; there are %s", name, strings.Join(n, ", "))
}
