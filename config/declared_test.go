package config

import (
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// The declarations in a script are completed like an entry of scriptedTools.
func TestDeclared(t *testing.T) {
	c, err := Parse("vmcp.yaml", []byte("limits: {steps: 500, calls: 7}"))
	if err != nil {
		t.Fatal(err)
	}
	at := diag.Pos{File: "deploy.star", Line: 3, Column: 1}
	tool, err := c.Declared(at, []byte(`{"name":"deploy","description":"Deploys.","script":"x","timeout":"5s","limits":{"calls":2},"parameters":{"type":"object","maxProperties":9007199254740993}}`))
	if err != nil {
		t.Fatal(err)
	}
	if l := tool.Limits; l.Steps != 500 || l.Calls != 2 || l.Time.Std() != 5*time.Second {
		t.Errorf("limits = %+v, want the tool's own over the general ones", l)
	}
	if got := string(tool.Parameters.JSON); got != `{"type":"object","maxProperties":9007199254740993}` {
		t.Errorf("parameters = %s, want them as declared", got)
	}
	_, err = c.Declared(at, []byte(`{"name":"deploy","description":"Deploys.","script":"x","timeout":5}`))
	if want := `deploy.star:3:1: error: tool.timeout: want`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a wrong declaration: %v, want %s...", err, want)
	}
}
