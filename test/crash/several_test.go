//go:build suites

package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// shop is a file of two tools whose results have their names; in the edited file the two functions are exchanged.
const shop = `
tool(name = "first", description = "d", parameters = {"type": "object", "properties": {"id": {"type": "string"}}}, entry = "%[1]s")
tool(name = "second", description = "d", parameters = {"type": "object", "properties": {"id": {"type": "string"}}}, entry = "%[2]s")

def one(params):
    return slowly("one", params["id"])

def two(params):
    return slowly("two", params["id"])

def slowly(name, id):
    call_tool("pay", {"what": id + "/" + name + "0"})
    sleep("3s")
    call_tool("pay", {"what": id + "/" + name + "1"})
    return name
`

// TestOneToolOfAFileAcrossAKill: a run of the second tool of a file is resumed with the function that it began with, also
// when the file was edited or removed meanwhile.
func TestOneToolOfAFileAcrossAKill(t *testing.T) {
	for _, tt := range []struct{ name, after string }{
		{"as it was", fmt.Sprintf(shop, "one", "two")},
		{"the functions of the tools are others", fmt.Sprintf(shop, "two", "one")},
		{"there is no such function", "tool(name = \"first\", description = \"d\")\n\ndef run(params):\n    return \"new\"\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTrial(t, "scripts: [tools]\n")
			file := filepath.Join(tr.dir, "tools", "shop.star")
			write := func(text string) {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(fmt.Sprintf(shop, "one", "two"))
			s := tr.serve()
			tr.called("second", "a", time.Second)
			tr.called("first", "b", time.Second)
			s.kill()
			write(tt.after)
			s = tr.serve()
			defer s.kill()
			for tool, did := range map[string][]string{"second": {"a/two0", "a/two1"}, "first": {"b/one0", "b/one1"}} {
				tr.until(tool, "done")
				for _, what := range did {
					if n := tr.ledger.did(what); n != 1 {
						t.Errorf("%s: %s was done %d times, want once", tool, what, n)
					}
				}
			}
			for _, what := range []string{"a/one0", "a/one1", "b/two0", "b/two1"} {
				if n := tr.ledger.did(what); n != 0 {
					t.Errorf("%s was done %d times: the function of the other tool", what, n)
				}
			}
		})
	}
}
