package config

import (
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"unicode/utf8"

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

// ownName checks the name of a scripted or composite tool.
func (v *validator) ownName(owner map[string]string, at, name string) {
	if !toolName.MatchString(name) {
		v.Report(at+".name", "want 1 to 64 letters, digits, - and _; have %q", name)
		return
	}
	if first, twice := owner[name]; twice {
		v.Report(at+".name", "%q is the name of %s already", name, first)
		return
	}
	owner[name] = at
}

// functionName does not bound the length: compiling \p{L} 128 times would take megabytes.
var functionName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\p{L}_][\p{L}\p{Nd}_]*$`) })

// longestFunction bounds the name of a function, in characters.
const longestFunction = 128

// isolatedOn is the only operating system with workers for isolated scripts; tests replace it.
var isolatedOn = "linux"

func (v *validator) scripted(t *ScriptedTool, at string) {
	if strings.TrimSpace(t.Description) == "" {
		v.Report(at+".description", "want a sentence that describes the tool for the model")
	}
	v.source(t, at)
	if v.Set(at+".entry") && (utf8.RuneCountInString(t.Entry) > longestFunction || !functionName().MatchString(t.Entry)) {
		v.Report(at+".entry", "want the name of a function of the script, such as run; have %q", t.Entry)
	}
	v.Schema(at+".parameters", t.Parameters)
	v.Schema(at+".output", t.Output)
	if t.Isolated && isolatedOn != runtime.GOOS {
		v.Report(at+".isolated", "scripts can be isolated on Linux only, whose kernel bounds the worker processes; this is %s", runtime.GOOS)
	}
	if l := t.Limits; l != nil && l.Time != 0 && t.Timeout != 0 && l.Time != t.Timeout {
		v.Report(at+".timeout", "limits.time is the same setting and has another value; keep one")
	}
}

// source checks that exactly one source is set, and resolves its file.
func (v *validator) source(t *ScriptedTool, at string) {
	switch {
	case v.InObject() && v.Set(at+".script") == v.Set(at+".scriptFrom"):
		v.Report(at, "want exactly one of script and scriptFrom")
	case v.InObject() && !v.Set(at+".script"):
		v.textSource(at+".scriptFrom", t.ScriptFrom)
	case v.Set(at+".script") && v.Set(at+".scriptFile"):
		v.Report(at+".scriptFile", "want either script or scriptFile, have both")
	case v.Set(at + ".script"):
		if strings.TrimSpace(t.Script) == "" {
			v.Report(at+".script", "is empty; want a script that defines run(params)")
		}
	case v.Set(at + ".scriptFile"):
		t.ScriptFile = v.scriptFile(at+".scriptFile", t.ScriptFile)
	default:
		v.Report(at, "want a script or a scriptFile")
	}
}

func (v *validator) scriptFile(path, name string) string {
	abs := v.Absolute(name)
	switch info, err := os.Stat(abs); {
	case name == "":
		v.Report(path, "want the name of a file")
	case err != nil:
		v.Report(path, "no such file %q", name)
	case files.IsTest(name):
		v.Report(path, "%q is named like a test; tests are not served as tools", name)
	case !info.Mode().IsRegular():
		v.Report(path, "%q is not a file", name)
	}
	return abs
}

func (v *validator) libraries(libs []Library) {
	first := map[string]int{}
	for i := range libs {
		l, at := &libs[i], document.IndexPath("libraries", i)
		v.textSource(at+".sourceFrom", l.SourceFrom)
		switch inline, folder := v.Set(at+".source"), v.Set(at+".path"); {
		case v.InObject() && inline == v.Set(at+".sourceFrom"):
			v.Report(at, "want exactly one of source and sourceFrom")
		case v.InObject() && l.Name == "":
			v.Report(at+".name", "want what scripts load, such as helpers.star")
		case inline == folder && !v.InObject():
			v.Report(at, "want either path, a folder, or name and source")
		case folder:
			v.only(at, "source", "name")
			l.Path = v.Folder(at+".path", l.Path)
		case files.IsTest(l.Name):
			v.Report(at+".name", "%q is named like a test; tests are no libraries", l.Name)
		case !validModule(l.Name):
			v.Report(at+".name", "want a relative name such as helpers.star, have %q", l.Name)
		default:
			if n, twice := first[l.Name]; twice {
				v.Report(at+".name", "%q is the name of libraries[%d] already", l.Name, n)
			}
			first[l.Name] = i
		}
	}
}

// validModule reports whether name can be loaded: a relative path with slashes, without . and .. elements.
func validModule(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\\:\x00") {
			return false
		}
	}
	return true
}

// PrefixOf is the prefix of the names of a backend's tools and prompts.
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
