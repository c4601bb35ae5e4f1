package editor

import (
	"path/filepath"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/script"
)

// ToolNames returns the scripted tools of a configuration file, for completion; none if it has problems.
func ToolNames(file string) []string {
	cfg, err := config.Load(file)
	if err != nil {
		return nil
	}
	scripts, _ := catalog.Compile(cfg, catalog.Known{})
	return scripts.Names()
}

// ShowAll removes the filters and the check of pins, so that clients see all tools: scripts may also call hidden ones.
func ShowAll(cfg *config.Config) {
	cfg.Pins = config.Pins{OnChange: "off"}
	cfg.Aggregation.ExcludeAllTools = false
	cfg.Aggregation.DefaultToolVisibility = "visible"
	for i := range cfg.Aggregation.Tools {
		cfg.Aggregation.Tools[i].Filter, cfg.Aggregation.Tools[i].ExcludeAll = nil, false
	}
}

// TestFile is the path of a tool's tests: beside its script, or beside the configuration that
// contains the script.
func TestFile(config, tool string, file script.File) string {
	name := file.Origin.File
	if filepath.Ext(name) != ".star" {
		return filepath.Join(filepath.Dir(config), tool+"_test.star")
	}
	return strings.TrimSuffix(name, ".star") + "_test.star"
}
