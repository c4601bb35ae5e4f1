package migration

import (
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/migrate"
)

// TestChecksWhatItWrites: a script that does not compile, or that vmcp check refuses, is reported with the place of its
// workflow.
func TestChecksWhatItWrites(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    migrate.Script
		want string
	}{
		{"good", migrate.Script{Source: "def run(params):\n    return 1\n"}, ""},
		{"the legacy module", migrate.Script{Source: "load(\"legacy\", \"text\")\n\ndef run(params):\n    return text(1)\n"}, ""},
		{"an undefined name", migrate.Script{Source: "def run(params):\n    return aproved\n"},
			"vmcp.yaml:7:5: deploy: the clean script does not compile, which is a bug of this command: deploy.star:2:12: undefined: aproved"},
		{"a type", migrate.Script{Source: "def run(params):\n    return [1].get(\"a\")\n"}, "vmcp.yaml:7:5: deploy: vmcp check refuses the clean script"},
		{"a parameter", migrate.Script{Source: "def run(params):\n    return params[\"b\"]\n", Parameters: []byte(`{"type":"object","properties":{"a":{}}}`)},
			"the tool has no parameter b"},
		{"a parameter that a note names", migrate.Script{Source: "def run(params):\n    return params[\"b\"]\n", Parameters: []byte(`{"type":"object","properties":{"a":{}}}`), Undeclared: true}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.Name, tt.s.Pos = "deploy", diag.Pos{File: "vmcp.yaml", Line: 7, Column: 5}
			err := checkScripts([]*migrate.Script{&tt.s}, "clean")
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("have %v\nwant %s", err, tt.want)
			}
		})
	}
}
