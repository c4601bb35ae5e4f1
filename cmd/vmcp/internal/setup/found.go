package setup

import (
	"slices"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// place is the configuration file of a client on this machine.
type place struct {
	client, file string
}

// found returns the clients with servers in their files.
func found() (all []place) {
	each(func(at place, f *clients.File) {
		if slices.ContainsFunc(f.Servers, func(s clients.Server) bool { return !s.Ignored }) {
			all = append(all, at)
		}
	})
	return all
}

// each reads the clients' files that exist and are valid.
func each(do func(place, *clients.File)) {
	s := cli.This()
	for _, client := range cli.Names {
		file := s.File(client)
		data, err := files.Read(file, clients.MaxFile)
		if err != nil {
			continue
		}
		if f, err := clients.Read(file, data, clients.Options{Home: s.Home, Client: client}); err == nil {
			do(place{client, file}, f)
		}
	}
}

// Entry is an entry for vmcp in a client's file, with the URL of the endpoint.
type Entry struct{ Client, File, URL string }

// OwnEntries returns the entries for vmcp in the files of clients on this machine.
func OwnEntries() (entries []Entry) {
	each(func(at place, f *clients.File) {
		for _, v := range f.Servers {
			if v.Own != "" {
				entries = append(entries, Entry{at.client, at.file, v.Own})
			}
		}
	})
	return entries
}
