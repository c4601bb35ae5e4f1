package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// shells are the shells with completions, and the file names that they search for.
var shells = []struct{ name, file string }{{"bash", "vmcp.bash"}, {"zsh", "_vmcp"}, {"fish", "vmcp.fish"}, {"powershell", "vmcp.ps1"}}

// stage writes the files of packages beside the program: completions/, man/, man.gz/, CHANGELOG.md.gz, changelog.gz for
// Debian, THIRD_PARTY_LICENSES.txt and its .gz. program is the path of the one for this platform; "" compiles it.
func (r *release) stage(dir, program string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if program == "" {
		work, err := os.MkdirTemp("", "vmcp-stage")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		program = filepath.Join(work, host().program())
		if err := r.compile(host(), program); err != nil {
			return err
		}
	}
	for _, sub := range []string{"completions", "man", "man.gz"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	for _, s := range shells {
		text, err := r.output(program, "completion", s.name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "completions", s.file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := r.manual(program, dir); err != nil {
		return err
	}
	if err := compress(filepath.Join(r.source, "CHANGELOG.md"), filepath.Join(dir, "CHANGELOG.md.gz")); err != nil {
		return err
	}
	if err := r.debianChangelog(filepath.Join(dir, "changelog.gz")); err != nil {
		return err
	}
	licenses := filepath.Join(dir, "THIRD_PARTY_LICENSES.txt")
	if err := r.writeLicenses(licenses); err != nil {
		return err
	}
	return compress(licenses, licenses+".gz")
}

// manual writes the manual pages, plain and compressed as distributions require.
func (r *release) manual(program, dir string) error {
	cmd := exec.Command(program, "man", filepath.Join(dir, "man"))
	cmd.Stderr = r.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("vmcp man: %v", err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "man", "*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		if err := compress(page, filepath.Join(dir, "man.gz", filepath.Base(page)+".gz")); err != nil {
			return err
		}
	}
	return nil
}

// debianChangelog writes the changelog that Debian's policy requires (section 4.4). It refers to CHANGELOG.md.gz for the
// changes.
func (r *release) debianChangelog(name string) error {
	var b bytes.Buffer
	if err := gzipped(&b, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "vmcp (%s) stable; urgency=medium\n\n  * A release: CHANGELOG.md.gz says what has changed.\n\n -- The vmcp authors <vmcp-dev@users.noreply.github.com>  %s\n",
			strings.Replace(r.version, "-", "~", 1), r.date.UTC().Format("Mon, 02 Jan 2006 15:04:05 -0700"))
		return err
	}); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// compress writes a gzip file without name and time in its header.
func compress(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := gzipped(&b, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}); err != nil {
		return err
	}
	return os.WriteFile(to, b.Bytes(), 0o644)
}

// gzipped calls write with a gzip writer at the best compression.
func gzipped(w io.Writer, write func(io.Writer) error) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := write(z); err != nil {
		return err
	}
	return z.Close()
}
