package script_test

import (
	"testing"

	"github.com/vmcp-dev/vmcp/script"
)

// TestSources: the texts of a program, compiled again, are the same program.
func TestSources(t *testing.T) {
	lib := script.Library{Inline: map[string]string{"a.star": "load('b.star', 'x')\ny = x\n", "b.star": "x = 1\n"}}
	p, err := script.Compile(script.File{Name: "main.star", Source: []byte("load('a.star', 'y')\ndef run(params):\n    return y\n")}, script.Options{Load: lib.Load})
	if err != nil {
		t.Fatal(err)
	}
	texts := p.Sources()
	again, err := script.Compile(script.File{Name: p.Name(), Source: []byte(texts[p.Name()])}, script.Options{Load: script.Library{Inline: texts}.Load})
	if err != nil || again.Hash() != p.Hash() || len(texts) != 3 {
		t.Errorf("%v, %d texts; the hash is %s, then %s", err, len(texts), p.Hash(), again.Hash())
	}
}
