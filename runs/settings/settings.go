// Package settings reads what a configuration says of runs that are kept, in the types of the
// stores. It knows no database: see runs/open for that.
package settings

import (
	"cmp"
	"reflect"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/seal"
)

// Options are those of c.Runs.
func Options(c *config.Config) runs.Options {
	r := c.Runs
	o := runs.Options{Lease: r.Lease.Std(), MaxEntries: r.MaxEntries, MaxBytes: int64(r.MaxBytes), Keep: runs.Keep(r.Retention.Keep)}
	if r.Notify.URL == "" && r.Notify.Tool == "" {
		return o
	}
	o.Tell = []runs.State{runs.Waiting, runs.Doubt, runs.Failed}
	if len(r.Notify.Events) > 0 {
		o.Tell = nil
		for _, e := range r.Notify.Events {
			o.Tell = append(o.Tell, runs.State(e))
		}
	}
	return o
}

// Keys are those of c.SessionStorage, as a ring takes them.
func Keys(c *config.Config) []seal.Key {
	var keys []seal.Key
	for _, k := range c.SessionStorage.Keys {
		keys = append(keys, seal.Key{ID: k.ID, Secret: k.Key})
	}
	return keys
}

// What a journal in memory may have where the configuration does not say so: a run is charged for it, and shall not be
// lost for having more of it than a database is to keep.
const (
	entriesInMemory = 200_000
	bytesInMemory   = 128 << 20
)

// InMemory are the options of journals in memory. Of a run that has ended nobody can read what it did there.
func InMemory(c *config.Config) runs.Options {
	o := Options(c)
	o.MaxEntries, o.MaxBytes = cmp.Or(o.MaxEntries, entriesInMemory), cmp.Or(o.MaxBytes, bytesInMemory)
	o.Keep = runs.KeepNone
	return o
}

// SameStore reports whether two configurations name the same store, opened in the same way. Keys may differ.
func SameStore(a, b *config.Config) bool {
	one, other := a.SessionStorage, b.SessionStorage
	one.Keys, other.Keys = nil, nil
	return reflect.DeepEqual(one, other) && reflect.DeepEqual(Options(a), Options(b))
}
