package repl

import (
	"path/filepath"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/script"
)

// ToolNames are the scripted tools of a configuration file, for the shell; none when it has problems.
func ToolNames(file string) []string {
	cfg, err := config.Load(file)
	if err != nil {
		return nil
	}
	scripts, _ := catalog.Compile(cfg)
	return scripts.Names()
}

// ShowAll changes a configuration so that clients see all tools: scripts may call hidden ones, too.
func ShowAll(cfg *config.Config) {
	cfg.Pins = config.Pins{OnChange: "off"}
	cfg.Aggregation.ExcludeAllTools = false
	cfg.Aggregation.DefaultToolVisibility = "visible"
	for i := range cfg.Aggregation.Tools {
		cfg.Aggregation.Tools[i].Filter, cfg.Aggregation.Tools[i].ExcludeAll = nil, false
	}
}

// TestFile is where the tests of a tool stand: beside its script, or beside the configuration that
// holds it.
func TestFile(config, tool string, file script.File) string {
	name := file.Origin.File
	if filepath.Ext(name) != ".star" {
		return filepath.Join(filepath.Dir(config), tool+"_test.star")
	}
	return strings.TrimSuffix(name, ".star") + "_test.star"
}
