package main

import (
	"archive/tar"
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string // with slashes
	file string // its content, unless text is set
	text []byte
	mode int64
}

// content is the entry's text.
func (e entry) content() ([]byte, error) {
	if e.text != nil {
		return e.text, nil
	}
	return os.ReadFile(e.file)
}

// archive writes the program with its accompanying files: a zip file for Windows, a compressed tar file elsewhere.
func (r *release) archive(a artefact) error {
	entries := []entry{{name: a.program(), file: a.binary, mode: 0o755}}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		entries = append(entries, entry{name: name, file: filepath.Join(r.source, name), mode: 0o644})
	}
	entries = append(entries, entry{name: licensesFile, file: filepath.Join(a.stage, licensesFile), mode: 0o644})
	for _, folder := range []string{"completions", "man"} {
		files, err := filepath.Glob(filepath.Join(a.stage, folder, "*"))
		if err != nil {
			return err
		}
		for _, f := range files {
			entries = append(entries, entry{name: folder + "/" + filepath.Base(f), file: f, mode: 0o644})
		}
	}
	if a.os == "windows" {
		return writeZip(r.name(a, ".zip"), entries, r.date)
	}
	return writeTar(r.name(a, ".tar.gz"), entries, r.date)
}

// writeTar writes a compressed tar file. Equal entries give equal bytes.
func writeTar(to string, entries []entry, at time.Time) error {
	return create(to, func(f io.Writer) error {
		return gzipped(f, func(z io.Writer) error {
			w := tar.NewWriter(z)
			for _, e := range sorted(entries) {
				text, err := e.content()
				if err != nil {
					return err
				}
				h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(text)), ModTime: at, Format: tar.FormatUSTAR}
				if err := w.WriteHeader(h); err != nil {
					return err
				}
				if _, err := w.Write(text); err != nil {
					return err
				}
			}
			return w.Close()
		})
	})
}

// writeZip writes a zip file. Equal entries give equal bytes.
func writeZip(to string, entries []entry, at time.Time) error {
	return create(to, func(f io.Writer) error {
		w := zip.NewWriter(f)
		for _, e := range sorted(entries) {
			text, err := e.content()
			if err != nil {
				return err
			}
			h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
			h.SetMode(os.FileMode(e.mode))
			part, err := w.CreateHeader(h)
			if err != nil {
				return err
			}
			if _, err := part.Write(text); err != nil {
				return err
			}
		}
		return w.Close()
	})
}

// sorted returns entries sorted by name.
func sorted(entries []entry) []entry {
	return slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return strings.Compare(a.name, b.name) })
}

// create writes a new file.
func create(to string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	return write(f)
}
