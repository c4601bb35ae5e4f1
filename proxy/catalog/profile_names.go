package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
)

// Path is the beginning of the paths of profiles, before the name.
const Path = "/mcp/"

// In is the profile that a path names; "" for none.
func In(path string) string {
	_, name, _ := strings.Cut(path, Path)
	return name
}

// Names are the names of a configuration's profiles, in its order.
type Names []string

// NamesOf returns the names of a configuration's profiles.
func NamesOf(cfg *config.Config) (all Names) {
	for _, p := range cfg.Profiles {
		all = append(all, p.Name)
	}
	return all
}

// CheckPath returns an error for a path at which nothing is served: neither the endpoint nor a profile.
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

// Check returns an error for the name of an unknown profile; "" is none, and valid.
func (n Names) Check(name string) error {
	switch {
	case name == "" || slices.Contains(n, name):
		return nil
	case len(n) == 0:
		return fmt.Errorf("no profile %q: the configuration has none", name)
	}
	return fmt.Errorf("no profile %q; the profiles are %s", name, strings.Join(n, ", "))
}
