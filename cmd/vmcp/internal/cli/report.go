package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/codes"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// This part of the package prints problems: as text, as JSON, for code
// scanning (SARIF), and as annotations of GitHub.

// Formats are the values of --output.
var Formats = []string{"text", "json", "sarif", "github"}

// report is the JSON of problems.
type report struct {
	Valid    bool          `json:"valid"` // the exit code is 0
	Problems diag.Problems `json:"problems"`
}

// ReportForm is the end of the help of commands that print it.
var ReportForm = Of(report{})

// Write prints problems; valid reports whether the exit code is 0. hide hides secrets in
// each text.
func Write(w io.Writer, format string, problems diag.Problems, valid bool, hide func(string) string) error {
	var err error
	switch format {
	case "json":
		err = encode(w, report{valid, append(diag.Problems{}, problems...)})
	case "sarif":
		err = encode(w, sarifOf(problems))
	case "github":
		for _, p := range problems {
			if _, err = fmt.Fprintln(w, hide(annotation(p))); err != nil {
				break
			}
		}
	default:
		for _, p := range problems {
			if _, err = fmt.Fprintln(w, hide(p.Error())); err != nil {
				break
			}
		}
	}
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// text is the message of a problem, without its position and code.
func text(p diag.Problem) string {
	p.Pos, p.Code, p.Severity = diag.Pos{}, "", diag.Error
	return strings.TrimPrefix(p.Error(), "error: ")
}

var (
	message  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// annotation is a workflow command of GitHub. What has a meaning there is escaped, or a
// message could become another command.
func annotation(p diag.Problem) string {
	parts := []string{}
	add := func(name, value string) {
		if value != "" && value != "0" {
			parts = append(parts, name+"="+property.Replace(value))
		}
	}
	add("file", p.File)
	add("line", fmt.Sprint(p.Line))
	add("endLine", fmt.Sprint(p.EndLine))
	add("col", fmt.Sprint(p.Column))
	add("endColumn", fmt.Sprint(p.EndColumn))
	add("title", p.Code)
	return "::" + p.Severity.String() + " " + strings.Join(parts, ",") + "::" + message.Replace(text(p))
}

// The parts of SARIF 2.1.0 that are used.
type (
	sarif struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifRule struct {
		ID    string    `json:"id"`
		Short sarifText `json:"shortDescription"`
		Help  sarifText `json:"help"`
	}
	sarifResult struct {
		Rule      string          `json:"ruleId"`
		Index     int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
		Related   []sarifLocation `json:"relatedLocations,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
		Message  *sarifText    `json:"message,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
		EndLine     int `json:"endLine,omitempty"`
		EndColumn   int `json:"endColumn,omitempty"`
	}
)

func sarifOf(problems diag.Problems) sarif {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "vmcp", Rules: []sarifRule{}}
	for _, p := range problems {
		i := slices.IndexFunc(run.Tool.Driver.Rules, func(r sarifRule) bool { return r.ID == p.Code })
		if i < 0 {
			i = len(run.Tool.Driver.Rules)
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, rule(p.Code))
		}
		r := sarifResult{Rule: p.Code, Index: i, Level: p.Severity.String(), Message: sarifText{text(p)}, Locations: []sarifLocation{location(p.Pos, p.EndLine, p.EndColumn)}}
		for _, rel := range p.Related {
			l := location(rel.Pos, 0, 0)
			l.Message = &sarifText{rel.Message}
			r.Related = append(r.Related, l)
		}
		run.Results = append(run.Results, r)
	}
	return sarif{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}
}

func rule(code string) sarifRule {
	c, ok := codes.Find(code)
	if !ok {
		return sarifRule{code, sarifText{"a problem of the configuration"}, sarifText{"The message says what would be right."}}
	}
	return sarifRule{code, sarifText{c.Short}, sarifText{c.Why}}
}

func location(p diag.Pos, endLine, endColumn int) sarifLocation {
	l := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{uri(p.File)}}}
	if p.Line > 0 {
		l.Physical.Region = &sarifRegion{p.Line, p.Column, endLine, endColumn}
	}
	return l
}

// uri is the name of a file as a relative URI reference.
func uri(file string) string {
	var b strings.Builder
	for _, c := range []byte(file) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`%:?#"<>[]\^{|}`+"`", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
