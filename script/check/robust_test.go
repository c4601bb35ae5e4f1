package check_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// TestDamagedScriptsAreChecked takes lines and characters out of scripts and puts others in: the
// check ends, whatever the text is.
func TestDamagedScriptsAreChecked(t *testing.T) {
	var texts []string
	for _, root := range []string{corpus, "../testdata/attacks", "../../builtins/testdata"} {
		_ = filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(name, ".star") {
				if text, err := os.ReadFile(name); err == nil && len(text) < 20000 {
					texts = append(texts, string(text))
				}
			}
			return nil
		})
	}
	tools, rounds := corpusTools(t), 300
	if testmode.Thorough() {
		rounds = 20000
	}
	r := rand.New(rand.NewPCG(1, 2))
	parts := []string{"None", "[0]", "()", "params", "{}", "lambda: x", "\n", "    ", ".x", "%", "for x in y", "*", "**", "=", "return", "if True:", "\"k\"", "1"}
	for range rounds {
		lines := strings.Split(texts[r.IntN(len(texts))], "\n")
		for range 1 + r.IntN(3) {
			i := r.IntN(len(lines))
			switch r.IntN(3) {
			case 0:
				lines = append(lines[:i:i], lines[i+1:]...)
			case 1:
				lines[i] += parts[r.IntN(len(parts))]
			default:
				at := r.IntN(len(lines[i]) + 1)
				lines[i] = lines[i][:at] + parts[r.IntN(len(parts))] + lines[i][at:]
			}
			if len(lines) == 0 {
				lines = []string{""}
			}
		}
		src, _ := corpusSource("damaged.star", []byte(strings.Join(lines, "\n")))
		p := check.Check([]check.Source{src}, corpusOptions(tools))
		p.TypeAt("damaged.star", 1+r.IntN(len(lines)), 1+r.IntN(40))
		_ = p.Problems().Error()
	}
}

// TestLargeScriptsTakeTimeInProportion compares a script with one that is eight times as long.
func TestLargeScriptsTakeTimeInProportion(t *testing.T) {
	testmode.NeedThorough(t)
	long := func(n int) script.File {
		var b strings.Builder
		b.WriteString("def run(params):\n    a0 = 1\n")
		for i := range n {
			fmt.Fprintf(&b, "    if a%d > 3:\n        a%d = a%d + 1\n    else:\n        a%d = {\"k\": a%d}[\"k\"]\n", i, i+1, i, i+1, i)
		}
		fmt.Fprintf(&b, "    return a%d\n", n)
		return script.File{Name: "long.star", Source: []byte(b.String())}
	}
	took := func(n int) time.Duration {
		start := time.Now()
		check.File(long(n), check.Options{Builtins: builtins.Table()})
		return time.Since(start)
	}
	took(50)
	for try := 1; ; try++ { // a machine with much else to do may stop one of them at any time
		small, large := took(150), took(1200)
		t.Logf("%v and %v", small, large)
		if large <= 64*small {
			return
		}
		if try == 5 {
			t.Fatalf("eight times the text took %v after %v", large, small)
		}
	}
}

// BenchmarkHundredFiles checks a hundred files of the corpus together.
func BenchmarkHundredFiles(b *testing.B) {
	files, _ := filepath.Glob(corpus + "/odd/*.star")
	var sources []check.Source
	for len(sources) < 100 {
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				b.Fatal(err)
			}
			src, _ := corpusSource(name, text)
			sources = append(sources, src)
		}
	}
	tools := corpusTools(b)
	for b.Loop() {
		check.Check(sources[:100], corpusOptions(tools))
	}
}
