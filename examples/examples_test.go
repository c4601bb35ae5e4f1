// Package examples holds runnable configurations, a demo and small real backends.
package examples

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/script"
)

// Every configuration is accepted as it stands, and its scripts compile.
func TestConfigurationsAreValid(t *testing.T) {
	for _, name := range []string{"GITHUB_TOKEN", "CRM_SECRET", "HR_SECRET", "HR_LIST"} {
		t.Setenv(name, "secret")
	}
	t.Setenv("VMCP_KEY", base64.StdEncoding.EncodeToString(make([]byte, 32)))
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
