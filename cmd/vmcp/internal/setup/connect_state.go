package setup

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

// state is what connect has written: the file connect.json, and beside it the folder backups/ with copies of the
// original files. Both are readable for the user alone: the files of clients have secrets in them.
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
	Value  string `json:"value"` // the value of the entry
	// SHA256 is the hash of the whole file as connect wrote it.
	SHA256 string `json:"sha256"`
	// Backup is the name in backups/ of the copy of the original; "" for a file that did not exist.
	Backup string `json:"backup,omitempty"`
	Made   bool   `json:"made,omitempty"`
	// Folders are those that connect made for the file, the innermost first.
	Folders []string `json:"folders,omitempty"`
	// Parent is whether connect also made the member that contains the entry.
	Parent bool `json:"parent,omitempty"`
	// Replaced are the entries that --replace removed.
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
		return nil, fmt.Errorf("%s: %w: it records what connect has written; move it away to start over", name, err)
	}
	return s, nil
}

// lock excludes other processes of connect until unlock is called.
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

// put saves a record, in place of an earlier one of the same entry.
func (s *state) put(rec *record) error {
	s.forget(rec)
	s.Entries = append(s.Entries, rec)
	return s.save()
}

// forget removes the record of an entry from memory; save is up to the caller.
func (s *state) forget(rec *record) {
	s.Entries = slices.DeleteFunc(s.Entries, func(r *record) bool {
		return r.File == rec.File && r.Shape == rec.Shape && r.Name == rec.Name
	})
}

// drop removes the record of an entry and its copy.
func (s *state) drop(rec *record) error {
	s.forget(rec)
	if err := s.save(); err != nil {
		return err
	}
	s.removeBackup(rec.Backup)
	return nil
}

// revert restores the record known in place of rec, whose file was not written.
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

// clean deletes the copy of an earlier record unless rec uses the same one.
func (s *state) clean(known, rec *record) {
	if known != nil && known.Backup != rec.Backup {
		s.removeBackup(known.Backup)
	}
}

func (s *state) removeBackup(name string) {
	if name != "" {
		_ = os.Remove(s.backup(name)) // a copy without a record is never read
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

// original reads the copy of the file as it was before connect.
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
