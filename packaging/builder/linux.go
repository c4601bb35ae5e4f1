package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // formats register themselves
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
	"go.yaml.in/yaml/v3"
)

// stageFolder is the folder of staged files in .goreleaser.yaml.
const stageFolder = "packaging/stage/"

// linuxPackage returns the function that makes packages of a format from the description in .goreleaser.yaml and the program.
func (r *release) linuxPackage(format string) func(artefact) error {
	return func(a artefact) error {
		if a.os != "linux" {
			return nil
		}
		info, err := r.packageInfo(format, a)
		if err != nil {
			return err
		}
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		return create(r.name(a, "."+format), func(w io.Writer) error { return packager.Package(info, w) })
	}
}

// packageInfo reads the description of the Linux package. Its fields are nfpm's, but for the name and the
// dependencies, and its paths are relative to the project's folder.
func (r *release) packageInfo(format string, a artefact) (*nfpm.Info, error) {
	text, err := os.ReadFile(filepath.Join(r.source, ".goreleaser.yaml"))
	if err != nil {
		return nil, err
	}
	var described struct {
		NFPMs []yaml.Node `yaml:"nfpms"`
	}
	if err := yaml.Unmarshal(text, &described); err != nil {
		return nil, err
	}
	if n := len(described.NFPMs); n != 1 {
		return nil, fmt.Errorf(".goreleaser.yaml describes %d packages for Linux, want 1", n)
	}
	var config nfpm.Config
	if err := described.NFPMs[0].Decode(&config); err != nil {
		return nil, err
	}
	// Fields with another name in GoReleaser.
	var more struct {
		Overrides map[string]struct {
			Dependencies []string `yaml:"dependencies"`
		} `yaml:"overrides"`
	}
	if err := described.NFPMs[0].Decode(&more); err != nil {
		return nil, err
	}
	for format, o := range config.Overrides {
		o.Depends = more.Overrides[format].Dependencies
	}
	config.Name, config.Arch, config.Version, config.MTime = "vmcp", a.arch, r.version, r.date
	info, err := config.Get(format)
	if err != nil {
		return nil, err
	}
	for _, c := range info.Contents {
		c.Source = r.path(c.Source, a)
	}
	s := &info.Scripts
	for _, script := range []*string{&s.PreInstall, &s.PostInstall, &s.PreRemove, &s.PostRemove} {
		*script = r.path(*script, a)
	}
	info.Contents = append(info.Contents, &files.Content{Source: a.binary, Destination: "/usr/bin/vmcp", FileInfo: &files.ContentFileInfo{Mode: 0o755}})
	info = nfpm.WithDefaults(info)
	return info, nfpm.PrepareForPackager(info, format)
}

// path is the path of a file of the description.
func (r *release) path(name string, a artefact) string {
	if name == "" {
		return ""
	}
	if staged, ok := strings.CutPrefix(name, stageFolder); ok {
		return filepath.Join(a.stage, staged)
	}
	return filepath.Join(r.source, name)
}
