package connect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// state is what connect has written where: connect.json, and beside it backups/ with the files as
// they were before. Both are the user's alone: the files of clients have secrets in them.
type state struct {
	folder  string
	Entries []*record `json:"entries"`
}

// record is one entry in one file.
type record struct {
	Client string `json:"client"`
	File   string `json:"file"`
	Shape  string `json:"shape"`
	Name   string `json:"name"`
	URL    string `json:"url"`
	Value  string `json:"value"` // of the entry
	// SHA256 is of the whole file as it was written.
	SHA256 string `json:"sha256"`
	// Backup is the file below backups/ with what was there before; "" for a file that connect made.
	Backup string `json:"backup,omitempty"`
	Made   bool   `json:"made,omitempty"`
	// Parent is that connect made the member that the entry is under, too.
	Parent bool `json:"parent,omitempty"`
	// Replaced are the entries that gave way.
	Replaced []string  `json:"replaced,omitempty"`
	At       time.Time `json:"at"`
}

const (
	stateFile = "connect.json"
	// maxState bounds the file, in bytes.
	maxState = 16 << 20
)

func readState(folder string) (*state, error) {
	s := &state{folder: folder}
	name := filepath.Join(folder, stateFile)
	data, err := files.Read(name, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w: it says what connect has written; move it away to begin anew", name, err)
	}
	return s, nil
}

// lock makes one connect wait for another.
func (r *run) lock() (unlock func(), err error) {
	folder := r.system.State()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return files.Lock(filepath.Join(folder, "connect.lock"))
}

func (s *state) find(file, shape, name string) *record {
	for _, r := range s.Entries {
		if r.File == file && r.Shape == shape && r.Name == name {
			return r
		}
	}
	return nil
}

// put saves a record in the place of an earlier one of the same entry.
func (s *state) put(rec *record) error {
	s.forget(rec)
	s.Entries = append(s.Entries, rec)
	return s.save()
}

// forget takes the record of an entry out, without saving that.
func (s *state) forget(rec *record) {
	s.Entries = slices.DeleteFunc(s.Entries, func(r *record) bool {
		return r.File == rec.File && r.Shape == rec.Shape && r.Name == rec.Name
	})
}

// drop forgets an entry, with its copy.
func (s *state) drop(rec *record) error {
	s.forget(rec)
	if err := s.save(); err != nil {
		return err
	}
	s.removeBackup(rec.Backup)
	return nil
}

// revert brings back what was known before rec, of which nothing was written.
func (s *state) revert(rec, known *record) error {
	s.forget(rec)
	if known != nil {
		s.Entries = append(s.Entries, known)
	}
	if err := s.save(); err != nil {
		return err
	}
	if known == nil || known.Backup != rec.Backup {
		s.removeBackup(rec.Backup)
	}
	return nil
}

// clean removes the copy that an earlier record had, if rec has another one.
func (s *state) clean(known, rec *record) {
	if known != nil && known.Backup != rec.Backup {
		s.removeBackup(known.Backup)
	}
}

func (s *state) removeBackup(name string) {
	if name != "" {
		_ = os.Remove(s.backup(name)) // one that stays is only read through a record
	}
}

func (s *state) backup(name string) string {
	return filepath.Join(s.folder, "backups", filepath.Base(name))
}

// keep writes a copy, and returns its name.
func (s *state) keep(rec *record, data []byte) (name string, err error) {
	if err := os.MkdirAll(filepath.Join(s.folder, "backups"), 0o700); err != nil {
		return "", err
	}
	name = fmt.Sprintf("%s-%.8s-%.8s%s", rec.Client, sum([]byte(rec.File+"\n"+rec.Shape+"\n"+rec.Name)), sum(data), filepath.Ext(rec.File))
	return name, files.WritePrivate(s.backup(name), data)
}

// original is the file as it was before.
func (s *state) original(rec *record) ([]byte, error) {
	data, err := files.Read(s.backup(rec.Backup), clients.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("the copy of %s: %w", rec.File, err)
	}
	return data, nil
}

func (s *state) save() error {
	slices.SortStableFunc(s.Entries, func(a, b *record) int { return a.At.Compare(b.At) })
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return files.WritePrivate(filepath.Join(s.folder, stateFile), append(data, '\n'))
}
