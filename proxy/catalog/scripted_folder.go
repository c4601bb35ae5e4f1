package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// folders makes scripted tools of every .star file in the scripts folders that declares tools with tool(...). Files
// without a declaration are libraries.
func (c *scriptedCompiler) folders() {
	owners := ownersOf(c.cfg)
	for i, dir := range c.cfg.Scripts {
		entries, err := os.ReadDir(dir) // sorted by name
		if err != nil && !c.cfg.Partial() {
			c.refuse(script.File{}, diag.Problem{Pos: c.cfg.Place(fmt.Sprintf("scripts[%d]", i)), Code: "config"}, fmt.Errorf("scripts folder: %w", err))
		}
		for _, e := range entries {
			switch {
			case !strings.HasSuffix(e.Name(), ".star") || strings.HasPrefix(e.Name(), "."):
			case files.IsTest(e.Name()):
				c.library(dir, e.Name())
			default:
				c.folderFile(filepath.Join(dir, e.Name()), owners)
			}
		}
	}
}

// ownersOf says where each name is declared already.
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

// readScript reads the file of a script: only a regular file, and only inside of its folder.
func (c *scriptedCompiler) readScript(name string) ([]byte, error) {
	source, err := c.given.Overlay.read(filepath.Dir(name), filepath.Base(name), c.most)
	if err != nil {
		return nil, diag.Problems{{Pos: diag.InFile(name).Pos, Code: "load", Message: files.Cause(err).Error()}}
	}
	return source, nil
}

// folderFile checks one file of a scripts folder and makes the tools that it declares.
func (c *scriptedCompiler) folderFile(name string, owners map[string]string) {
	source, err := c.readScript(name)
	if err != nil {
		c.refuse(script.File{}, diag.Problem{}, err)
		return
	}
	file := script.File{Name: name, Source: source, Origin: diag.InFile(name)}
	all, problems := check.ReadDeclarations(file, generalLimits(c.cfg))
	if len(all) == 0 {
		if problems == nil {
			problems = undeclared(file)
		}
		c.problems = append(c.problems, problems...)
		c.add(filepath.Base(name), check.Source{File: file, Kind: check.Library})
		return
	}
	c.problems = append(c.problems, problems...)
	for _, d := range all {
		t, err := c.declared(d, name, owners)
		switch named := d.Problem("tool.name").Pos; {
		case err != nil:
			c.refuse(file, diag.Problem{}, err)
			c.textOf(d.Name, file, nil, check.Entry{Function: d.Entry, Limits: generalLimits(c.cfg)}, diag.Pos{})
		case len(problems) > 0: // it may be a library of others, but its tools do not run
			c.textOf(t.Name, file, nil, entryOf(c.cfg, t), named)
		default:
			c.tool(t, file, d.Problem(""), named)
		}
	}
}

// declared is the configuration of a tool according to its declaration in a file.
func (c *scriptedCompiler) declared(d *check.Declaration, name string, owners map[string]string) (*config.ScriptedTool, error) {
	t, err := c.cfg.Declared(d.Problem("").Pos, declared(d, name))
	var problems diag.Problems
	if errors.As(err, &problems) {
		for i, p := range problems {
			problems[i] = d.Problem(p.Path)
			problems[i].Path, problems[i].Message = p.Path, p.Message
		}
		return nil, problems
	}
	if owner, taken := owners[t.Name]; taken {
		p := d.Problem("tool.name")
		p.Code, p.Message = "tool-duplicate", fmt.Sprintf("the tool %s is also declared in %s", t.Name, owner)
		return nil, diag.Problems{p}
	}
	owners[t.Name] = d.Problem("tool.name").Pos.String()
	return t, nil
}

var definesRun = regexp.MustCompile(`(?m)^(def run\b|run\s*=[^=])`)

// undeclared reports a file without a declaration that defines run: a tool whose declaration was forgotten, not a
// library.
func undeclared(f script.File) diag.Problems {
	at := definesRun.FindIndex(f.Source)
	if at == nil {
		return nil
	}
	pos := f.Origin.Pos
	pos.Line += bytes.Count(f.Source[:at[0]], []byte("\n"))
	return diag.Problems{{Pos: pos, Code: config.DeclarationCode,
		Message: `the file defines run but declares no tool: want tool(name="...", description="...") at top level; a library has no run`}}
}

// declared encodes a declaration as the fields of a scriptedTools entry.
func declared(d *check.Declaration, file string) json.RawMessage {
	fields := new(jsonscan.Object).Text("name", d.Name).Text("scriptFile", file)
	for _, f := range []struct{ name, text string }{{"title", d.Title}, {"description", d.Description}, {"timeout", d.Timeout}, {"entry", d.Entry}} {
		if f.text != "" || f.name == "description" {
			fields.Text(f.name, f.text)
		}
	}
	fields.Raw("parameters", d.Parameters).Raw("output", d.Output).Raw("annotations", d.Annotations).Raw("limits", d.Limits)
	if d.TrustAnnotations {
		fields.Bool("trustAnnotations", true)
	}
	return fields.JSON()
}
