package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/clients"
)

// FuzzImport: an import of any client's file gives a configuration without problems, and no value
// in vmcp.yaml that was moved to vmcp.env.
func FuzzImport(f *testing.F) {
	inputs, err := filepath.Glob("../../../../config/clients/testdata/*/in.*")
	if err != nil || len(inputs) == 0 {
		f.Fatal(inputs, err)
	}
	for _, in := range inputs {
		data, err := os.ReadFile(in)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"mcpServers": {"a b": {"command": "docker", "args": ["-e", "A_TOKEN=x=y${B:-c}", "--api-key", "k\"\\\n", "https://u:p%zz@h/ghp_1?token=a&b#c", "--header", "Authorization: Bearer  x"]}}}`))
	f.Add([]byte(`{"mcpServers": {"url": {"url": "https://u:${P}@h:80/x/ghp_abc?key=${K:-v}&token=a%20b", "headers": {"Authorization": "Bearer $${x}", "X": "basic y"}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4<<10 {
			return
		}
		file, err := clients.Read("x", data, clients.Options{Home: "/home/ada", Workspace: "/home/ada/work"})
		if err != nil {
			return
		}
		r := newImport("env")
		r.asked = map[string]clients.Variable{}
		for _, v := range file.Variables {
			r.asked[v.Name] = v
		}
		for i := range file.Servers {
			s := &file.Servers[i]
			s.EnvFile = ""
			r.take(&importedBackend{Name: s.Name}, s, "/home/ada/work")
		}
		yaml, err := r.apply(&edited{name: "vmcp.yaml"})
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if len(r.add) == 0 {
			return
		}
		if err := (&edited{name: "vmcp.yaml", set: r.secrets}).check(yaml); err != nil {
			t.Fatalf("%q becomes\n%s\n%v", data, yaml, err)
		}
		r.readBack(t)
		for name, value := range r.secrets {
			if len(value) > 11 && strings.Count(string(data), value) == 1 && strings.Contains(string(yaml), value) {
				t.Errorf("%q becomes\n%s\nwith %s, %q", data, yaml, name, value)
			}
		}
	})
}

// readBack checks that every value that was moved can be read from vmcp.env.
func (r *imported) readBack(t *testing.T) {
	t.Helper()
	name := filepath.Join(t.TempDir(), config.EnvFile)
	if err := os.WriteFile(name, []byte(r.envLines("", nil)), 0o600); err != nil {
		t.Fatal(err)
	}
	have, err := config.ReadVariables(name)
	if err != nil {
		t.Fatal(err)
	}
	for variable, value := range r.secrets {
		if have[variable] != value {
			t.Errorf("%s is %q in vmcp.env, want %q", variable, have[variable], value)
		}
	}
}
