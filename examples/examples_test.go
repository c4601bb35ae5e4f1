// Package examples holds runnable configurations, a demo and small real backends.
package examples

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/script"
)

// Every configuration is valid, and its scripts compile.
func TestConfigurationsAreValid(t *testing.T) {
	for _, name := range []string{"GITHUB_TOKEN", "CRM_SECRET", "HR_SECRET", "HR_LIST"} {
		t.Setenv(name, "secret")
	}
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	t.Setenv("VMCP_KEY", key)
	t.Setenv("VMCP_DATABASE_URL", "postgres://vmcp:secret@postgres/vmcp")
	t.Setenv("POD_IP", "10.0.0.7")
	files, err := filepath.Glob("*/vmcp.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("configurations: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Dir(file), func(t *testing.T) {
			dir := t.TempDir() // with the file of tokens that its README makes
			if err := os.CopyFS(dir, os.DirFS(filepath.Dir(file))); err != nil {
				t.Fatal(err)
			}
			token := "tokens: [{name: eve, sha256: " + strings.Repeat("0", 64) + "}]"
			if err := os.WriteFile(filepath.Join(dir, "tokens.yaml"), []byte(token), 0o600); err != nil {
				t.Fatal(err)
			}
			withKeys(t, filepath.Join(dir, filepath.Base(file)), key)
			cfg, err := config.Load(filepath.Join(dir, filepath.Base(file)))
			if err != nil {
				t.Fatal(err)
			}
			for _, tool := range cfg.ScriptedTools {
				src := script.File{Name: tool.Name, Source: []byte(tool.Script)}
				if _, err := script.Compile(src, script.Options{Builtins: builtins.All()}); err != nil {
					t.Errorf("script of %s: %v", tool.Name, err)
				}
			}
		})
	}
}

// withKeys puts the keys of replicas, which a secret has, beside a configuration.
func withKeys(t *testing.T, file, key string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(filepath.Dir(file), "keys")
	if err := os.Mkdir(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(keys, "2026-11"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte("/etc/vmcp/keys"), []byte(keys)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestReplicas: both ways to run three replicas have the same configuration, as much time as it takes to end, and a balancer
// that knows all of them.
func TestReplicas(t *testing.T) {
	text := func(name string) string {
		data, err := os.ReadFile(filepath.Join("replicas", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var manifest struct {
		Data map[string]string
	}
	first, _, _ := strings.Cut(text("kubernetes.yaml"), "---\n")
	decode(t, first, &manifest)
	if manifest.Data["vmcp.yaml"] != text("vmcp.yaml") {
		t.Error("kubernetes.yaml has another vmcp.yaml than the one beside it")
	}
	var compose struct {
		Services map[string]struct {
			Image, Hostname string
			Environment     map[string]string
			Volumes         []string
			Grace           string `json:"stop_grace_period"`
		}
	}
	decode(t, text("compose.yaml"), &compose)
	replicas := 0
	for name, s := range compose.Services {
		if !strings.HasPrefix(name, "vmcp-") {
			continue
		}
		replicas++
		if s.Hostname != name || s.Environment["POD_IP"] != name || s.Grace != "30s" || !slices.Contains(s.Volumes, "./vmcp.yaml:/etc/vmcp/vmcp.yaml:ro") {
			t.Errorf("compose.yaml: %s: %+v", name, s)
		}
		if !strings.Contains(text("haproxy.cfg"), "server "+name+" "+name+":4483\n") {
			t.Errorf("haproxy.cfg does not know %s", name)
		}
	}
	if replicas != 3 {
		t.Errorf("compose.yaml has %d replicas, want 3", replicas)
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}
