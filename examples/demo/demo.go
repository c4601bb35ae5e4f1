// Package demo is the configuration of "vmcp serve" without a configuration file: two backends,
// a small workspace for them, and scripted tools that call both. It is written to a folder
// whose files the user may change:
//
//	if err := demo.Write(dir); err != nil { ... }
//	cfg, err := config.Parse(filepath.Join(dir, "vmcp.yaml"), demo.Config(self, dir))
package demo

import (
	"bytes"
	"embed"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// Tool is the scripted tool of the demo that is suggested to users, and Arguments are its arguments.
const (
	Tool      = "service_report"
	Arguments = `{"min_minutes": 10}`
)

//go:embed files
var files embed.FS

// configFile is the template among the files; Write leaves it to Config.
const configFile = "vmcp.yaml"

// workFolder is the folder whose files the user and the demo's tools change.
const workFolder = "workspace"

// Write writes the demo to dir, which is created if it is missing. Existing files of the workspace
// are not changed: the demo's tools may have changed them. All other files are replaced by those of
// this program, which may be newer. The configuration is not
// among the files, see Config.
func Write(dir string) error {
	content, err := fs.Sub(files, "files")
	if err != nil {
		return err
	}
	return fs.WalkDir(content, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == configFile {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := fs.ReadFile(content, name)
		if err != nil {
			return err
		}
		if present, err := os.ReadFile(to); err == nil && (owned(name) || bytes.Equal(present, data)) {
			return nil
		}
		return os.WriteFile(to, data, 0o644)
	})
}

// owned reports whether an existing file belongs to the user.
func owned(name string) bool { return strings.HasPrefix(name, workFolder+"/") }

// Config returns the configuration of the demo in dir, whose backends are the program
// self, started as "self demo-backend workspace ..." and "self demo-backend yamlfile ...".
// Paths of scripts are relative to dir.
func Config(self, dir string) []byte {
	var b bytes.Buffer
	err := configTemplate.Execute(&b, map[string]string{
		"Self":      self,
		"Workspace": filepath.Join(dir, workFolder),
		"Database":  filepath.Join(dir, "demo.db"),
		"Seed":      filepath.Join(dir, "seed.sql"),
	})
	if err != nil {
		panic(err) // the template is part of the program
	}
	return b.Bytes()
}

var configTemplate = template.Must(template.New(configFile).
	Funcs(template.FuncMap{"json": quote}).ParseFS(files, "files/"+configFile))

// quote writes a text as JSON, which is valid YAML.
func quote(s string) (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}
