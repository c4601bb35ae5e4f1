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

// Write lays the demo out in dir, which is made when missing. Files that are there are
// left alone: they may have been changed by the demo's tools. The configuration is not
// among them; its content is Config.
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
		return writeNew(to, data)
	})
}

func writeNew(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if os.IsExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// Config returns the configuration of the demo in dir, whose backends are the program
// self, started as "self demo-backend workspace ..." and "self demo-backend yamlfile ...".
// Paths of scripts are relative to dir.
func Config(self, dir string) []byte {
	var b bytes.Buffer
	err := configTemplate.Execute(&b, map[string]string{
		"Self":      self,
		"Workspace": filepath.Join(dir, "workspace"),
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
