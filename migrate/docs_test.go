package migrate_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/migrate"
)

// pair is a workflow in docs/migrate.md and its script there.
var pair = regexp.MustCompile("(?s)```yaml\n(.*?)```\n\n```python (exact|clean)\n(.*?)```")

// TestGuide migrates the workflows of docs/migrate.md, and compares the scripts with those there.
func TestGuide(t *testing.T) {
	const file = "../docs/migrate.md"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pairs := 0
	guide := pair.ReplaceAllStringFunc(string(data), func(text string) string {
		m := pair.FindStringSubmatch(text)
		pairs++
		defs, err := migrate.Parse("before.yaml", []byte(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		s, err := migrate.Translate(defs[0], migrate.Options{Style: migrate.Style(m[2])})
		if err != nil {
			t.Fatal(err)
		}
		compiles(t, s)
		return strings.Replace(text, "```python "+m[2]+"\n"+m[3]+"```", "```python "+m[2]+"\n"+s.Source+"```", 1)
	})
	if pairs != 3 {
		t.Errorf("%d pairs in the guide, want 3", pairs)
	}
	golden(t, file, guide)
}
