package sqlstore

import (
	"cmp"
	"reflect"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// This part of the package converts the settings of a configuration for stored runs into the types of the
// stores. It imports no database: see open.go for that.

// settingsOptions returns the options of c.Runs.
func settingsOptions(c *config.Config) durable.Options {
	r := c.Runs
	o := durable.Options{Lease: r.Lease.Std(), MaxEntries: r.MaxEntries, MaxBytes: int64(r.MaxBytes), Keep: durable.Keep(r.Retention.Keep)}
	if r.Notify.URL == "" && r.Notify.Tool == "" {
		return o
	}
	o.Notify = []durable.State{durable.Waiting, durable.Doubt, durable.Failed}
	if len(r.Notify.Events) > 0 {
		o.Notify = nil
		for _, e := range r.Notify.Events {
			o.Notify = append(o.Notify, durable.State(e))
		}
	}
	return o
}

// Keys returns the keys of c.SessionStorage, for [durable.NewSeal].
func Keys(c *config.Config) []durable.Key {
	var keys []durable.Key
	for _, k := range c.SessionStorage.Keys {
		keys = append(keys, durable.Key{ID: k.ID, Secret: k.Key})
	}
	return keys
}

// Bounds of a journal in memory where the configuration has none. They are above those of a database: the memory is
// reserved from the run's budget, and a run should not fail because a database could not keep its journal.
const (
	entriesInMemory = 200_000
	bytesInMemory   = 128 << 20
)

// InMemory returns the options of journals that are in memory only. The entries of an ended run are removed.
func InMemory(c *config.Config) durable.Options {
	o := settingsOptions(c)
	o.MaxEntries, o.MaxBytes = cmp.Or(o.MaxEntries, entriesInMemory), cmp.Or(o.MaxBytes, bytesInMemory)
	o.Keep = durable.KeepNone
	return o
}

// SameStore reports whether two configurations name the same store with the same options. Keys may differ.
func SameStore(a, b *config.Config) bool {
	one, other := a.SessionStorage, b.SessionStorage
	one.Keys, other.Keys = nil, nil
	return reflect.DeepEqual(one, other) && reflect.DeepEqual(settingsOptions(a), settingsOptions(b))
}
