package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

// licensesFile has the licences of all third-party code in the program.
const licensesFile = "THIRD_PARTY_LICENSES.txt"

// licenseName matches the names of licence files and of notices that must be distributed with them.
var licenseName = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|copyright|patents)([-.].*)?$`)

// writeLicenses writes the licences of all modules that the program contains on any platform.
func (r *release) writeLicenses(to string) error {
	modules, err := r.modules()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	text.WriteString("vmcp contains software of others, under the licences below.\n")
	for _, m := range modules {
		name, version, _ := strings.Cut(m, " ")
		texts, err := licensesOf(name, version)
		if err != nil {
			return err
		}
		ids := identifiers(texts)
		if len(ids) == 0 {
			return fmt.Errorf("%s %s: no licence that is known", name, version)
		}
		fmt.Fprintf(&text, "\n%s\n%s %s (%s)\n", strings.Repeat("=", 80), name, version, strings.Join(ids, ", "))
		for _, t := range texts {
			fmt.Fprintf(&text, "\n--- %s ---\n\n%s\n", t.file, bytes.TrimSpace(t.text))
		}
	}
	return os.WriteFile(to, text.Bytes(), 0o644)
}

// modules returns the modules of the program on all platforms, as "path version", and Go itself.
func (r *release) modules() ([]string, error) {
	found := map[string]bool{}
	for _, p := range platforms {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./cmd/vmcp")
		cmd.Dir = r.source
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOWORK=off")
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %v", p, err)
		}
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimSpace(line); line != "" {
				found[line] = true
			}
		}
	}
	found[goItself] = true
	var list []string
	for m := range found {
		list = append(list, m)
	}
	slices.Sort(list)
	return list, nil
}

// goItself is the prefix of the entry of the standard library and the runtime.
const goItself = "Go "

// license is a licence file or a notice.
type license struct {
	file string
	text []byte
}

// licensesOf reads the licence files of a module in the module cache, or of Go.
func licensesOf(path, version string) ([]license, error) {
	dir, err := moduleFolder(path, version)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []license
	for _, e := range entries {
		if e.IsDir() || !licenseName.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		found = append(found, license{e.Name(), text})
	}
	return found, nil
}

// moduleFolder is the folder of a module's files.
func moduleFolder(path, version string) (string, error) {
	if path+" " == goItself {
		return goEnv("GOROOT")
	}
	cache, err := goEnv("GOMODCACHE")
	if err != nil {
		return "", err
	}
	escaped, err := module.EscapePath(path)
	if err != nil {
		return "", err
	}
	escapedVersion, err := module.EscapeVersion(version)
	return filepath.Join(cache, escaped+"@"+escapedVersion), err
}

func goEnv(name string) (string, error) {
	out, err := exec.Command("go", "env", name).Output()
	return strings.TrimSpace(string(out)), err
}

// identifiers returns the SPDX identifiers of the licences in some files.
func identifiers(texts []license) []string {
	var ids []string
	for _, t := range texts {
		for _, m := range licensecheck.Scan(t.text).Match {
			if !slices.Contains(ids, m.ID) && !m.IsURL && m.ID != "GooglePatentsFile" { // a patent grant without an SPDX identifier
				ids = append(ids, m.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}
