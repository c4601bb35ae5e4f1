package setup

import (
	"slices"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/places"
	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// place is the configuration of a client on this machine.
type place struct {
	client, file string
}

// found are the clients with servers in their files.
func found() (all []place) {
	each(func(at place, f *clients.File) {
		if slices.ContainsFunc(f.Servers, func(s clients.Server) bool { return !s.Ignored }) {
			all = append(all, at)
		}
	})
	return all
}

// each reads the files of clients that are on this machine and can be read.
func each(do func(place, *clients.File)) {
	s := places.This()
	for _, client := range places.Names {
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

// Entry is what a client's file says of a vmcp that it connects to.
type Entry struct{ Client, File, URL string }

// Own are the entries for vmcp in the files of clients on this machine.
func Own() (entries []Entry) {
	each(func(at place, f *clients.File) {
		for _, v := range f.Servers {
			if v.Own != "" {
				entries = append(entries, Entry{at.client, at.file, v.Own})
			}
		}
	})
	return entries
}
