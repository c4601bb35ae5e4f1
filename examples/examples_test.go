// Package examples holds runnable configurations, a demo and small real backends.
package examples

import (
	"path/filepath"
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
	files, err := filepath.Glob("*/vmcp.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("configurations: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Dir(file), func(t *testing.T) {
			cfg, err := config.Load(file)
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
