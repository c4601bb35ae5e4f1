package config

import (
	"os"
	"regexp"
	"runtime"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// tools checks the scripted and composite tools, which share one set of names.
func (v *validator) tools(c *Config) {
	owner := map[string]string{}
	for i := range c.ScriptedTools {
		at := document.IndexPath("scriptedTools", i)
		v.ownName(owner, at, c.ScriptedTools[i].Name)
		v.scripted(&c.ScriptedTools[i], at)
	}
	for i := range c.CompositeTools {
		v.ownName(owner, document.IndexPath("compositeTools", i), c.CompositeTools[i].Name)
	}
}

// ownName checks the name of a tool of ours.
func (v *validator) ownName(owner map[string]string, at, name string) {
	if !toolName.MatchString(name) {
		v.report(at+".name", "want 1 to 64 letters, digits, - and _; have %q", name)
		return
	}
	if first, twice := owner[name]; twice {
		v.report(at+".name", "%q is the name of %s already", name, first)
		return
	}
	owner[name] = at
}

var functionName = regexp.MustCompile(`^[\p{L}_][\p{L}\p{Nd}_]{0,127}$`)

// isolatedOn is the only system that has workers for isolated scripts; tests have another one.
var isolatedOn = "linux"

func (v *validator) scripted(t *ScriptedTool, at string) {
	if strings.TrimSpace(t.Description) == "" {
		v.report(at+".description", "want a sentence that tells the model what the tool does")
	}
	v.source(t, at)
	if v.set(at+".entry") && !functionName.MatchString(t.Entry) {
		v.report(at+".entry", "want the name of a function of the script, such as run; have %q", t.Entry)
	}
	v.schema(at+".parameters", t.Parameters)
	v.schema(at+".output", t.Output)
	if t.Isolated && isolatedOn != runtime.GOOS {
		v.report(at+".isolated", "scripts are isolated on Linux only: what bounds a worker process is its kernel's; this is %s", runtime.GOOS)
	}
	if l := t.Limits; l != nil && l.Time != 0 && t.Timeout != 0 && l.Time != t.Timeout {
		v.report(at+".timeout", "the same as limits.time, which says otherwise; keep one")
	}
}

// source checks that there is exactly one, and finds its file.
func (v *validator) source(t *ScriptedTool, at string) {
	switch {
	case v.inObject() && v.set(at+".script") == v.set(at+".scriptFrom"):
		v.report(at, "want exactly one of script and scriptFrom")
	case v.inObject() && !v.set(at+".script"):
		v.textSource(at+".scriptFrom", t.ScriptFrom)
	case v.set(at+".script") && v.set(at+".scriptFile"):
		v.report(at+".scriptFile", "a tool has script or scriptFile, this one has both")
	case v.set(at + ".script"):
		if strings.TrimSpace(t.Script) == "" {
			v.report(at+".script", "is empty; want a script that defines run(params)")
		}
	case v.set(at + ".scriptFile"):
		t.ScriptFile = v.scriptFile(at+".scriptFile", t.ScriptFile)
	default:
		v.report(at, "want a script or a scriptFile")
	}
}

func (v *validator) scriptFile(path, name string) string {
	abs := v.absolute(name)
	switch info, err := os.Stat(abs); {
	case name == "":
		v.report(path, "want the name of a file")
	case err != nil:
		v.report(path, "no such file %q", name)
	case files.IsTest(name):
		v.report(path, "%q is a test by its name, and no tool", name)
	case !info.Mode().IsRegular():
		v.report(path, "%q is not a file", name)
	}
	return abs
}

func (v *validator) libraries(libs []Library) {
	first := map[string]int{}
	for i := range libs {
		l, at := &libs[i], document.IndexPath("libraries", i)
		v.textSource(at+".sourceFrom", l.SourceFrom)
		switch inline, folder := v.set(at+".source"), v.set(at+".path"); {
		case v.inObject() && inline == v.set(at+".sourceFrom"):
			v.report(at, "want exactly one of source and sourceFrom")
		case v.inObject() && l.Name == "":
			v.report(at+".name", "want what scripts load, such as helpers.star")
		case inline == folder && !v.inObject():
			v.report(at, "want either path, a folder, or name and source")
		case folder:
			v.only(at, "source", "name")
			l.Path = v.folder(at+".path", l.Path)
		case files.IsTest(l.Name):
			v.report(at+".name", "%q is a test by its name, and no library", l.Name)
		case !validModule(l.Name):
			v.report(at+".name", "want a relative name such as helpers.star, have %q", l.Name)
		default:
			if n, twice := first[l.Name]; twice {
				v.report(at+".name", "%q is the name of libraries[%d] already", l.Name, n)
			}
			first[l.Name] = i
		}
	}
}

// validModule reports whether name can be loaded: slash-separated, relative, without dots to climb.
func validModule(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\\:\x00") {
			return false
		}
	}
	return true
}

// PrefixOf is what stands before the names of a backend's tools and prompts.
func (c *Config) PrefixOf(backend string) string {
	for i := range c.Backends {
		if b := &c.Backends[i]; b.Name == backend && b.Prefix != nil {
			return *b.Prefix
		}
	}
	a := &c.Aggregation
	if a.ConflictResolution != "" && a.ConflictResolution != "prefix" {
		return ""
	}
	format := a.ConflictResolutionConfig.PrefixFormat
	if format == "" {
		if len(c.Backends) == 1 {
			return ""
		}
		format = "{workload}_"
	}
	return strings.ReplaceAll(format, "{workload}", backend)
}
