package config

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// This part of the package has the parts of checks that are common to all fields of a configuration: reporting problems with
// positions, expanding variables and collecting the secrets among them, files and URLs. The checks of a field are in
// the file of its struct.

// Validator checks what types do not express: dependencies between fields, and existing files.
// It also makes relative paths absolute and expands variables.
type Validator struct {
	Document *document.Document
	Env      func(name string) (value string, ok bool) // the environment
	Dir      string                                    // what relative paths are relative to
	// Below is set if a part of a Kubernetes object is checked: the prefix of its paths.
	Below string

	Lenient  bool              // missing variables are no problem
	Secrets  []string          // values of variables that were expanded
	Named    map[string]string // the names of these variables by value
	Warnings diag.Problems
}

// Report records a problem of the value at path.
func (v *Validator) Report(path, format string, args ...any) {
	v.Document.Report(v.Below+path, format, args...)
}

// Broken reports whether the value at path has a problem.
func (v *Validator) Broken(path string) bool { return v.Document.Broken(v.Below + path) }

// InObject reports whether a part of a Kubernetes object is checked.
func (v *Validator) InObject() bool { return v.Below != "" }

// Warn records a warning about the value at path.
func (v *Validator) Warn(path, format string, args ...any) {
	path = v.Below + path
	v.Warnings = append(v.Warnings, diag.Problem{Pos: v.Document.Place(path), Code: v.Document.Code(), Path: path, Severity: diag.Warning}.Says(fmt.Sprintf(format, args...)))
}

// Set reports whether the file has a value at path.
func (v *Validator) Set(path string) bool { return v.Document.Has(v.Below + path) }

// Null reports whether the file has null at path.
func (v *Validator) Null(path string) bool { return v.Document.Null(v.Below + path) }

// Member is the path of a member of a mapping, or of an entry of a list.
func (v *Validator) Member(path, token string) string {
	if entry := path + "[" + token + "]"; v.Set(entry) {
		return entry
	}
	return document.KeyPath(path, token)
}

// URL checks a URL. Messages do not show it: it may contain a token.
func (v *Validator) URL(path, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		v.Report(path, "not a URL; want one such as https://mcp.example.com/mcp")
	case u.Scheme != "http" && u.Scheme != "https":
		v.Report(path, "want a URL that begins with http:// or https://")
	case u.Hostname() == "":
		v.Report(path, "the URL names no host")
	case u.User != nil:
		v.Report(path, "holds a password; put credentials into headers")
	case u.Fragment != "":
		v.Report(path, "a fragment (#...) is never sent; remove it")
	}
}

// Scopes checks the scopes of a token.
func (v *Validator) Scopes(path string, scopes []string) {
	for i, s := range scopes {
		if s == "" || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
			v.Report(document.IndexPath(path, i), "want one scope without spaces and quotes, have %q", s)
		}
	}
}
