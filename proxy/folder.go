package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script"
)

// folderTools makes a scripted tool of every .star file in the scripts folders that
// declares itself one with tool(...). The others are libraries for those. The error has
// all the problems of all the files.
func folderTools(cfg *config.Config) ([]config.ScriptedTool, error) {
	owners := ownersOf(cfg)
	var tools []config.ScriptedTool
	var problems []error
	for _, dir := range cfg.Scripts {
		files, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.star")) // in the order of their names
		if err != nil {
			problems = append(problems, fmt.Errorf("scripts folder %s: %w", dir, err))
		}
		for _, name := range files {
			t, err := folderTool(cfg, name, owners)
			if err != nil {
				problems = append(problems, err)
			} else if t != nil {
				tools = append(tools, *t)
			}
		}
	}
	return tools, errors.Join(problems...)
}

// ownersOf says who has which name already.
func ownersOf(cfg *config.Config) map[string]string {
	owners := map[string]string{}
	for i, t := range cfg.ScriptedTools {
		owners[t.Name] = fmt.Sprintf("scriptedTools[%d] of the configuration", i)
	}
	for i, t := range cfg.CompositeTools {
		owners[t.Name] = fmt.Sprintf("compositeTools[%d] of the configuration", i)
	}
	return owners
}

var globMeta = regexp.MustCompile(`[*?\[\\]`)

// escapeGlob makes a pattern of a path that matches nothing but the path.
func escapeGlob(path string) string {
	if filepath.Separator == '\\' {
		return path // no escapes on Windows, nor are * and ? in names there
	}
	return globMeta.ReplaceAllString(path, `\$0`)
}

// folderTool reads the declaration of one file; nil for a library.
func folderTool(cfg *config.Config, name string, owners map[string]string) (*config.ScriptedTool, error) {
	source, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	d, err := script.ReadDeclaration(script.File{Name: name, Source: source})
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, undeclared(name, source)
	}
	pos := config.Pos{File: name, Line: int(d.Pos.Line), Column: int(d.Pos.Col)}
	t, err := cfg.Declared(pos, declared(d, name))
	if err != nil {
		return nil, err
	}
	if owner, taken := owners[t.Name]; taken {
		return nil, config.Errors{{Pos: pos, Path: "tool.name", Message: fmt.Sprintf("%q is the name of %s already", t.Name, owner)}}
	}
	owners[t.Name] = name
	return t, nil
}

var definesRun = regexp.MustCompile(`(?m)^(def run\b|run\s*=[^=])`)

// undeclared tells a library from a tool whose declaration was forgotten.
func undeclared(name string, source []byte) error {
	at := definesRun.FindIndex(source)
	if at == nil {
		return nil
	}
	line := 1
	for _, b := range source[:at[0]] {
		if b == '\n' {
			line++
		}
	}
	return config.Errors{{Pos: config.Pos{File: name, Line: line, Column: 1},
		Message: `run is defined, and nothing says what the tool is: want tool(name="...", description="...") at top level; a library has no run`}}
}

// declared is a declaration as the fields of a scriptedTools entry.
func declared(d *script.Declaration, file string) json.RawMessage {
	fields := wire.Set(nil, "name", wire.Quote(d.Name))
	fields = wire.Set(fields, "scriptFile", wire.Quote(file))
	for _, f := range []struct{ name, text string }{{"title", d.Title}, {"description", d.Description}, {"timeout", d.Timeout}} {
		if f.text != "" || f.name == "description" {
			fields = wire.Set(fields, f.name, wire.Quote(f.text))
		}
	}
	for _, f := range []struct {
		name string
		raw  json.RawMessage
	}{{"parameters", d.Parameters}, {"output", d.Output}, {"annotations", d.Annotations}, {"limits", d.Limits}} {
		if f.raw != nil {
			fields = wire.Set(fields, f.name, f.raw)
		}
	}
	if d.TrustAnnotations {
		fields = wire.Set(fields, "trustAnnotations", []byte("true"))
	}
	return fields
}
