package setup

import (
	"encoding/json"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config/clients"
)

// listed is one client of --list.
type listed struct {
	Client string `json:"client"`
	File   string `json:"file"`
	// Found is whether the client has been used on this machine.
	Found bool `json:"found"`
	// Connected is whether it has an entry of the name, Stale whether that entry names another endpoint than
	// connect would write.
	Connected bool `json:"connected"`
	Stale     bool `json:"stale"`
	// URL is the endpoint in the entry.
	URL     string `json:"url,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// listing is the JSON of --list.
type listing struct {
	Clients []listed `json:"clients"`
}

// listAll lists the clients of args, or without args all known ones.
func (r *run) listAll(args []string, asJSON bool) error {
	all := []listed{}
	for _, client := range names() {
		if r.project != "" && cli.Project(client, r.project) == "" || len(args) > 0 && !slices.Contains(args, client) {
			continue
		}
		all = append(all, r.inspect(client))
	}
	if asJSON {
		return r.JSON(listing{all})
	}
	w := tabwriter.NewWriter(r.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLIENT\tSTATE\tFILE")
	for _, l := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\n", l.Client, l.word(), l.File)
	}
	return w.Flush()
}

func (l *listed) word() string {
	switch {
	case l.Problem != "":
		return l.Problem
	case l.Stale:
		return "stale: " + l.URL
	case l.Connected:
		return "connected"
	case l.Found:
		return "not connected"
	}
	return "not found"
}

func (r *run) inspect(client string) listed {
	d := dialects[client]
	l := listed{Client: client, File: r.file(client)}
	f, err := read(l.File)
	if err != nil {
		l.Problem = err.Error()
		return l
	}
	l.Found = f.there || r.project == "" && isFolder(r.system.Folder(client))
	found, err := clients.Find(f.name, f.data, d.shape, r.name)
	switch {
	case err != nil:
		l.Problem = err.Error()
	case found != nil:
		l.URL = address(found, d.shape, r.name)
		same := found.Same(d.value(r.endpoint))
		l.Connected, l.Stale = same || l.URL != "", !same && l.URL != r.endpoint.url
		if !l.Connected {
			l.Stale, l.Problem = false, fmt.Sprintf("the entry %s is of another server", r.name)
		}
	}
	return l
}

// address is the endpoint that an entry names: its URL, or that in the arguments of the bridge that it starts.
func address(found *clients.Found, shape, name string) string {
	var v struct {
		URL       string   `json:"url" toml:"url"`
		ServerURL string   `json:"serverUrl"`
		HTTPURL   string   `json:"httpUrl"`
		Args      []string `json:"args" toml:"args"`
	}
	if shape == clients.TOML {
		var whole map[string]map[string]map[string]any
		if toml.Unmarshal(found.Value, &whole) == nil {
			v.URL, _ = whole[shape][name]["url"].(string)
		}
		return v.URL
	}
	standard, err := hujson.Standardize(slices.Clone(found.Value))
	if err != nil || json.Unmarshal(standard, &v) != nil {
		return ""
	}
	if i := slices.Index(v.Args, "--url"); i >= 0 && i+1 < len(v.Args) {
		return v.Args[i+1]
	}
	for _, u := range []string{v.URL, v.ServerURL, v.HTTPURL} {
		if u != "" {
			return u
		}
	}
	return ""
}
