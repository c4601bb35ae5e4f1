package setup

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vmcp-dev/vmcp/config/clients"
)

// takeBack removes from a client's file what connect has written there.
func (r *run) takeBack(o *outcome) error {
	shape := dialects[o.Client].shape
	f, err := read(o.File)
	if err != nil {
		return err
	}
	rec := r.state.find(f.name, shape, r.name)
	if rec == nil {
		return r.notOurs(f, shape)
	}
	o.URL, o.Replaced = rec.URL, nil
	switch {
	case !f.there:
		o.Action = "gone"
	case sum(f.data) == rec.SHA256:
		err = r.restore(o, f, rec)
	default:
		err = r.takeOut(o, f, rec)
	}
	if err != nil || r.dryRun {
		return err
	}
	removeEmpty(rec.Folders)
	return r.state.drop(rec)
}

// notOurs returns the error of an entry that is not there, or was not written by connect.
func (r *run) notOurs(f *file, shape string) error {
	found, err := clients.Find(f.name, f.data, shape, r.name)
	if err != nil || found == nil {
		return fmt.Errorf("%s: it has no entry of vmcp connect", f.name)
	}
	return fmt.Errorf("%s: the entry %s was not written by vmcp connect", found.Pos, r.name)
}

// restore restores a file that has not changed since connect wrote it.
func (r *run) restore(o *outcome, f *file, rec *record) error {
	if rec.Made {
		if o.Action = "deleted"; r.dryRun {
			return nil
		}
		return f.remove()
	}
	original, err := r.state.original(rec)
	if err != nil {
		return err
	}
	if o.Action = "restored"; r.dryRun {
		return nil
	}
	return f.replace(original, false)
}

// takeOut removes only the entry, and restores the entries that it replaced.
func (r *run) takeOut(o *outcome, f *file, rec *record) error {
	next, err := r.without(f, rec)
	if errors.Is(err, clients.ErrNone) {
		o.Action = "gone"
		return nil
	}
	if err != nil {
		return err
	}
	if o.Action = "removed"; r.dryRun {
		return nil
	}
	return f.replace(next, false)
}

// without returns the text of a file that was edited since, without the entry and with the entries that it replaced.
func (r *run) without(f *file, rec *record) ([]byte, error) {
	next, err := clients.Remove(f.name, f.data, rec.Shape, rec.Name, rec.Parent)
	if len(rec.Replaced) == 0 || err != nil && !errors.Is(err, clients.ErrNone) {
		return next, err
	}
	if err != nil {
		next = f.data
	}
	original, err := r.state.original(rec)
	if err != nil {
		return nil, err
	}
	have, err := clients.Names(f.name, next, rec.Shape)
	if err != nil {
		return nil, err
	}
	for _, name := range rec.Replaced {
		was, err := clients.Find(f.name, original, rec.Shape, name)
		if err != nil {
			return nil, err
		}
		if was == nil || slices.Contains(have, name) {
			continue
		}
		if next, err = clients.Put(f.name, next, clients.Entry{Shape: rec.Shape, Name: name, Value: was.Value, Raw: true}); err != nil {
			return nil, err
		}
	}
	return next, nil
}
