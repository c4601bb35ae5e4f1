package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/limits"
)

var update = flag.Bool("update", false, "rewrite the expectations and the generated files")

func testEnv(name string) (string, bool) {
	v, ok := map[string]string{"TOKEN": "secret", "STORAGE_KEY": "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI="}[name]
	return v, ok
}

func parseFile(t *testing.T, path string) (*Config, error) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parse(path, data, testEnv)
}

// An invalid file contains the expected problems as comments: all of them, in order.
func TestBad(t *testing.T) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			body, want := cutWant(data)
			_, err = parse(filepath.Base(path), data, testEnv)
			var problems diag.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("parse(%s) = %v, want diag.Problems", path, err)
			}
			got := short(problems)
			if *update {
				writeWant(t, path, body, got)
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if strings.Contains(got, "hunter2") || strings.Contains(got, "12345") {
				t.Errorf("a message shows a secret:\n%s", got)
			}
		})
	}
}

// short formats problems that are all errors with the same code.
func short(problems diag.Problems) string {
	return strings.TrimSuffix(strings.NewReplacer(": error: ", ": ", " [config]\n", "\n").Replace(problems.Error()+"\n"), "\n")
}

const wantMark = "# want: "

func cutWant(data []byte) (body []byte, want string) {
	var lines []string
	for line := range bytes.Lines(data) {
		if text, ok := bytes.CutPrefix(line, []byte(wantMark)); ok {
			lines = append(lines, strings.TrimSuffix(string(text), "\n"))
			continue
		}
		body = append(body, line...)
	}
	return body, strings.Join(lines, "\n")
}

func writeWant(t *testing.T, path string, body []byte, problems string) {
	t.Helper()
	for line := range strings.SplitSeq(problems, "\n") {
		body = append(body, wantMark+line+"\n"...)
	}
	if err := os.WriteFile(path, body, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestGood(t *testing.T) {
	files, _ := filepath.Glob("testdata/good/*.yaml")
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			if _, err := parseFile(t, path); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestEveryField(t *testing.T) {
	c, err := parseFile(t, "testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir, _ := filepath.Abs("testdata/good")
	child := c.Backends[0]
	wantChild := Backend{
		Name: "workspace", Transport: "stdio", Command: dir + "/scripts/server",
		Args: []string{"--root", "${not expanded here}", "secret", "info"},
		Env:  map[string]string{"TOKEN": "secret", "LITERAL": "a ${TOKEN} b"},
		Cwd:  dir + "/scripts", Timeout: Duration(10 * time.Second), Sessions: "exclusive", MaxConnections: 3,
	}
	if diff := cmp.Diff(wantChild, child); diff != "" {
		t.Errorf("backends[0] (-want +got):\n%s", diff)
	}
	if got := c.Backends[1].Headers["Authorization"]; got != "Bearer secret" {
		t.Errorf("Authorization = %q, want the variable's value", got)
	}
	if got := c.Backends[1].Timeout.Std(); got != 20*time.Second {
		t.Errorf("github's timeout = %s, want the default of timeouts", got)
	}
	if got := c.Backends[2].Timeout.Std(); got != 2*time.Minute {
		t.Errorf("old's timeout = %s, want perWorkload's", got)
	}
	tool := c.ScriptedTools[0]
	const schema = `{"type":"object","properties":{"zebra":{"type":"integer","maximum":9007199254740993},` +
		`"apple":{"type":"string","default":"2024-01-01"}},"required":["zebra"]}`
	if got := string(tool.Parameters.JSON); got != schema {
		t.Errorf("parameters\n got %s\nwant %s", got, schema)
	}
	if tool.ScriptFile != dir+"/scripts/deploy.star" {
		t.Errorf("scriptFile = %q, want it absolute", tool.ScriptFile)
	}
	l := tool.Limits
	if l.Steps != 5000 || l.Memory != 16<<20 || l.Time.Std() != 5*time.Minute || l.Calls != 1000 {
		t.Errorf("limits = %+v, want the tool's own, its timeout, and the general ones", l)
	}
	if got := c.ScriptedTools[1].Limits.Steps; got != 2000000 {
		t.Errorf("steps of the second tool = %d, want the general limit", got)
	}
	composite := c.CompositeTools[0]
	if composite.Name != "legacy" || composite.Pos.Line != 72 || !json.Valid(composite.Raw.JSON) {
		t.Errorf("compositeTools[0] = %+v", composite)
	}
	if b := c.Operational.FailureHandling.CircuitBreaker; b.FailureThreshold != 5 || b.Timeout.Std() != 10*time.Second {
		t.Errorf("circuitBreaker = %+v", b)
	}
}

func TestMergeKeys(t *testing.T) {
	c, err := parseFile(t, "testdata/good/anchors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	two := c.Backends[1]
	want := map[string]string{"X-Team": "blue", "X-Stage": "prod", "X-Extra": "1"}
	if diff := cmp.Diff(want, two.Headers); diff != "" || two.Name != "two" || two.Timeout.Std() != 3*time.Second {
		t.Errorf("backends[1] = %+v, headers (-want +got):\n%s", two, diff)
	}
}

func TestDefault(t *testing.T) {
	c := Default()
	if c.Listen != "127.0.0.1:4483" || c.Aggregation.ConflictResolution != "prefix" ||
		c.Operational.Timeouts.Default.Std() != 30*time.Second || c.Limits.Memory.String() != "256MB" {
		t.Errorf("Default() = %+v", c)
	}
	again := Default()
	again.Complete()
	if diff := cmp.Diff(c, again, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("a second Complete changed (-want +got):\n%s", diff)
	}
}

// A configuration that one proxy serves may be passed to another: completing it again writes
// nothing that the first may read. The race detector checks this.
func TestCompleteAgainWritesNothing(t *testing.T) {
	c, err := parseFile(t, "testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.Backends = append(c.Backends, Backend{Name: "guarded", URL: "https://mcp.example.com"})
	c.OutgoingAuth.Backends = map[string]OutgoingStrategy{"guarded": {Type: "oauth"}}
	c.Complete()
	bounds, strategies := pointers(c)
	var both sync.WaitGroup
	for range 2 {
		both.Go(c.Complete)
	}
	both.Wait()
	nowBounds, nowStrategies := pointers(c)
	if !slices.Equal(bounds, nowBounds) || !slices.Equal(strategies, nowStrategies) {
		t.Error("a second Complete replaced limits of tools or strategies of backends")
	}
	if strategies[len(strategies)-1] == nil {
		t.Error("the backend has no strategy: the test shows nothing")
	}
}

func pointers(c *Config) (bounds []*limits.Run, strategies []*OutgoingStrategy) {
	for _, t := range c.ScriptedTools {
		bounds = append(bounds, t.Limits)
	}
	for _, b := range c.Backends {
		strategies = append(strategies, b.Outgoing)
	}
	return bounds, strategies
}

// A complete configuration, encoded as JSON, is parsed as an equal one.
func TestRoundTrip(t *testing.T) {
	want, err := parseFile(t, "testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	delete(want.Backends[0].Env, "LITERAL") // its literal ${ would be expanded
	want.Backends[0].Args[1] = "--all"
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse("testdata/good/again.json", text, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(diag.Pos{}), cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	if _, err := Load("testdata/no/such.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load of no file = %v, want os.ErrNotExist", err)
	}
	if c, err := Load("testdata/good/windows.yaml"); err != nil || c.Name != "with a byte order mark" {
		t.Errorf("Load = %+v, %v", c, err)
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"1B": 1, "3KB": 3 << 10, "256MB": 256 << 20, "2 GB": 2 << 30, "1025B": 1025} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%q = %d, %v, want %d", text, b, err, want)
		}
		if got := b.String(); got != strings.ReplaceAll(text, " ", "") {
			t.Errorf("String of %q = %q", text, got)
		}
	}
	for _, text := range []string{"", "5", "MB", "-1MB", "1TB", "9999999999999GB"} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q = %d, want it refused", text, b)
		}
	}
}

// FuzzParse: any text gives a configuration, or problems with positions.
func FuzzParse(f *testing.F) {
	for _, glob := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		files, _ := filepath.Glob(glob)
		for _, path := range files {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse("fuzz.yaml", data, testEnv)
		if err == nil {
			if _, err := json.Marshal(c); err != nil {
				t.Fatalf("a configuration that cannot be written: %v", err)
			}
			return
		}
		var problems diag.Problems
		if !errors.As(err, &problems) || len(problems) == 0 {
			t.Fatalf("parse = %v, want diag.Problems", err)
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Message == "" {
				t.Fatalf("problem without a place: %+v", p)
			}
		}
	})
}
