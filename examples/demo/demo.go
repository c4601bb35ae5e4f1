// Package demo is what "vmcp serve" runs when there is no configuration: two backends,
// a small workspace for them, and tools scripted over both. It is laid out in a folder
// that its user may look at and change:
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

// Tool is a scripted tool of the demo to show, and Arguments what to call it with.
const (
	Tool      = "service_report"
	Arguments = `{"min_minutes": 10}`
)

//go:embed files
var files embed.FS

// configFile is the template among the files; Write leaves it to Config.
const configFile = "vmcp.yaml"

// workFolder is the folder whose files belong to the demo's user and tools.
const workFolder = "workspace"

// Write lays the demo out in dir, which is made when missing. Files of the workspace that
// are there are left alone: the demo's tools may have changed them. The rest becomes what
// this program brings, which may be newer than what is there. The configuration is not
// among the files; its content is Config.
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

// owned reports whether a file belongs to the user once it is there.
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

// quote writes a text as JSON, which is YAML too.
func quote(s string) (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}
