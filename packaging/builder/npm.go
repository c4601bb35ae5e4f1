package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
)

// npmScope is the scope of the packages with the program of one platform; users install the package vmcp.
const npmScope = "@vmcp-dev"

// nodeOS and nodeArch are Node's names of platforms: process.platform, process.arch.
var (
	nodeOS   = map[string]string{"linux": "linux", "darwin": "darwin", "windows": "win32"}
	nodeArch = map[string]string{"amd64": "x64", "arm64": "arm64"}
)

// npmName is the name of a platform's package without its scope: vmcp-linux-x64.
func npmName(p platform) string { return "vmcp-" + nodeOS[p.os] + "-" + nodeArch[p.arch] }

// manifest is a package.json.
type manifest struct {
	Name                 string            `json:"name"`
	Version              string            `json:"version"`
	Description          string            `json:"description"`
	License              string            `json:"license"`
	Homepage             string            `json:"homepage"`
	Repository           map[string]string `json:"repository"`
	Keywords             []string          `json:"keywords,omitempty"`
	OS                   []string          `json:"os,omitempty"`
	CPU                  []string          `json:"cpu,omitempty"`
	Bin                  map[string]string `json:"bin,omitempty"`
	Engines              map[string]string `json:"engines,omitempty"`
	PreferUnplugged      bool              `json:"preferUnplugged,omitempty"` // Yarn must unpack the program to run it
	OptionalDependencies map[string]string `json:"optionalDependencies,omitempty"`
}

func (r *release) manifest(name, description string) manifest {
	return manifest{
		Name: name, Version: r.version, Description: description, License: "Apache-2.0", Homepage: "https://" + project,
		Repository: map[string]string{"type": "git", "url": "git+https://" + project + ".git"},
	}
}

// npmPlatform writes the package with the program of a platform.
func (r *release) npmPlatform(a artefact) error {
	m := r.manifest(npmScope+"/"+npmName(a.platform), "The vmcp program for "+nodeOS[a.os]+"-"+nodeArch[a.arch])
	m.OS, m.CPU, m.PreferUnplugged = []string{nodeOS[a.os]}, []string{nodeArch[a.arch]}, true
	return r.npmPackage(a.out, "vmcp-dev-"+npmName(a.platform), m, []entry{
		{name: "package/bin/" + a.program(), file: a.binary, mode: 0o755},
		{name: "package/LICENSE", file: filepath.Join(r.source, "LICENSE"), mode: 0o644},
		{name: "package/" + licensesFile, file: filepath.Join(a.stage, licensesFile), mode: 0o644},
	})
}

// npmWrapper writes the package that users install; those of the platforms are its optional dependencies.
func (r *release) npmWrapper(out string) error {
	m := r.manifest("vmcp", "Many MCP servers behind one endpoint, with tools scripted in Starlark")
	m.Keywords = []string{"mcp", "model-context-protocol", "mcp-server", "proxy", "gateway", "starlark"}
	m.Bin = map[string]string{"vmcp": "bin/vmcp.js"}
	m.Engines = map[string]string{"node": ">=18"}
	m.OptionalDependencies = map[string]string{}
	for _, p := range platforms {
		m.OptionalDependencies[npmScope+"/"+npmName(p)] = r.version
	}
	folder := filepath.Join(r.source, "packaging", "npm")
	return r.npmPackage(out, "vmcp", m, []entry{
		{name: "package/bin/vmcp.js", file: filepath.Join(folder, "bin", "vmcp.js"), mode: 0o755},
		{name: "package/README.md", file: filepath.Join(folder, "README.md"), mode: 0o644},
		{name: "package/LICENSE", file: filepath.Join(r.source, "LICENSE"), mode: 0o644},
	})
}

// npmPackage writes a package with the file name that npm pack would choose.
func (r *release) npmPackage(out, name string, m manifest, entries []entry) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		return err
	}
	folder := filepath.Join(out, "npm")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	entries = append(entries, entry{name: "package/package.json", text: text.Bytes(), mode: 0o644})
	return writeTar(filepath.Join(folder, name+"-"+r.version+".tgz"), entries, r.date)
}
