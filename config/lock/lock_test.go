package lock_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// shop is a file with one backend and these entries.
func shop(t *testing.T, entries map[string]string) *lock.File {
	t.Helper()
	f := lock.New()
	f.Backends["shop"] = lock.Backend{Instructions: "Ask first.", Revision: "2025-11-25", Server: "shop 2.4.0"}
	for name, raw := range entries {
		n, err := lock.ParseName(name)
		if err == nil {
			err = f.Add(n, []byte(raw))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func bytesOf(t *testing.T, f *lock.File) []byte {
	t.Helper()
	text, err := f.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const golden = `{
  "backends": {
    "shop": {
      "instructions": "%s",
      "instructionsText": "Ask first.",
      "revision": "2025-11-25",
      "server": "shop 2.4.0"
    }
  },
  "entries": {
    "prompt:shop.get": {
      "definition": {
        "name": "get"
      },
      "kind": "prompt",
      "sha256": "%s"
    },
    "shop.a.b\u001b\u202e": {
      "definition": {
        "description": "zero\u200bwidth",
        "inputSchema": {
          "maximum": 9007199254740993,
          "type": "object"
        },
        "name": "a.b\u001b\u202e"
      },
      "kind": "tool",
      "sha256": "%s"
    }
  },
  "version": 1
}
`

func TestBytes(t *testing.T) {
	f := shop(t, map[string]string{
		"shop.a.b\x1b\u202e": "{\"name\":\"a.b\\u001b\u202e\",\"inputSchema\":{\"type\":\"object\",\"maximum\":9007199254740993},\"description\":\"zero\u200bwidth\",\"icons\":[1]}",
		"prompt:shop.get":    `{"name":"get"}`,
	})
	text := bytesOf(t, f)
	want := fmt.Sprintf(golden, lock.Sum([]byte("Ask first.")), lock.Sum([]byte(`{"name":"get"}`)), f.Entries[lock.Name{Kind: lock.Tool, Backend: "shop", Own: "a.b\x1b\u202e"}].SHA256)
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("Bytes (-want +got):\n%s", diff)
	}
	again, err := lock.Parse("vmcp.lock", text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, again); diff != "" {
		t.Errorf("read again (-written +read):\n%s", diff)
	}
}

func TestNames(t *testing.T) {
	for text, want := range map[string]lock.Name{
		"shop.get":                 {Kind: lock.Tool, Backend: "shop", Own: "get"},
		"shop.a.b":                 {Kind: lock.Tool, Backend: "shop", Own: "a.b"},
		"shop..":                   {Kind: lock.Tool, Backend: "shop", Own: "."},
		"prompt.x:y":               {Kind: lock.Tool, Backend: "prompt", Own: "x:y"},
		"prompt:prompt.prompt:a.b": {Kind: lock.Prompt, Backend: "prompt", Own: "prompt:a.b"},
		"resource:shop.file:///a":  {Kind: lock.Resource, Backend: "shop", Own: "file:///a"},
		"template:shop.x://{id}":   {Kind: lock.Template, Backend: "shop", Own: "x://{id}"},
		"shop":                     {Kind: lock.Instructions, Backend: "shop"},
		"shop.\n":                  {Kind: lock.Tool, Backend: "shop", Own: "\n"},
	} {
		if got, err := lock.ParseName(text); err != nil || got != want || got.String() != text {
			t.Errorf("ParseName(%q) = %+v (%q), %v; want %+v", text, got, got, err, want)
		}
	}
	for _, bad := range []string{"", ".", ".get", "shop.", "prompt:shop", "prompt:", "resource:.x"} {
		if got, err := lock.ParseName(bad); err == nil {
			t.Errorf("ParseName(%q) = %+v, want an error", bad, got)
		}
	}
}

// A file in which a reviewed definition is not the pinned one, or that is ambiguous, is an error.
func TestBrokenFiles(t *testing.T) {
	good := string(bytesOf(t, shop(t, map[string]string{"shop.get": `{"name":"get","description":"Gets."}`})))
	sum := lock.Sum([]byte(`{"description":"Gets.","name":"get"}`))
	edit := func(old, now string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %q in\n%s", old, good)
		}
		return strings.Replace(good, old, now, 1)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "not JSON"},
		{"not JSON", "{\n  \"backends\": nil\n}", `vmcp.lock:2:16: error: not JSON: invalid character 'i'`},
		{"merge", edit(`    "shop.get"`, "<<<<<<< ours\n    \"shop.get\""), "a merge that was not finished"},
		{"no version", edit(`"version": 1`, `"version": 2`), "version: want 1, have 2"},
		{"no object", "[]", "want an object, have an array"},
		{"without version", `{"entries":{}}`, "want version: 1, have none"},
		{"the definition edited", edit("Gets.", "Gets all."), `vmcp.lock:11:17: error: entries: "shop.get": sha256 is not the hash of the definition`},
		{"the hash edited", edit(sum, strings.Repeat("0", 64)), "sha256 is not the hash of the definition"},
		{"the instructions edited", edit("Ask first.", "Do."), "instructions is not the hash of instructionsText"},
		{"the instructions unpinned", edit(`"instructions": "`+lock.Sum([]byte("Ask first."))+`",`, ""), "instructions is not the hash of instructionsText"},
		{"an entry twice", edit(`"entries": {`, `"entries": {"shop.get": {},`), "entries"},
		{"a part twice", edit(`"version": 1`, `"entries": {}, "version": 1`), `duplicate member "entries"`},
		{"another kind", edit(`"kind": "tool"`, `"kind": "prompt"`), `kind: want tool, have "prompt"`},
		{"another part", edit(`"version": 1`, `"pins": {}, "version": 1`), `unknown member "pins"`},
		{"another member", edit(`"kind": "tool"`, `"kind": "tool", "allow": true`), `unknown member "allow"`},
		{"no name", edit(`"shop.get"`, `"shop"`), "want a name such as backend.tool"},
		{"deep", edit(`"Gets."`, strings.Repeat("[", 600)+strings.Repeat("]", 600)), "vmcp.lock:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := lock.Parse("vmcp.lock", []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) || f != nil {
				t.Errorf("Parse: %v, %v\nwant %s", f, err, tt.want)
			}
		})
	}
	twice := edit(`  "version"`, `  "version"`)
	entry := twice[strings.Index(twice, `    "shop.get"`):strings.Index(twice, "\n  },\n  \"version\"")]
	if _, err := lock.Parse("vmcp.lock", []byte(strings.Replace(twice, entry, entry+",\n"+entry, 1))); err == nil || !strings.Contains(err.Error(), `duplicate member "shop.get"`) {
		t.Errorf("an entry twice: %v", err)
	}
}

func TestOfferedTwice(t *testing.T) {
	f, n := lock.New(), lock.Name{Kind: lock.Tool, Backend: "shop", Own: "get"}
	if err := errors.Join(f.Add(n, []byte(`{"name":"get"}`)), f.Add(n, []byte(` {"name" : "get"}`))); err != nil {
		t.Errorf("the same twice: %v", err)
	}
	if err := f.Add(n, []byte(`{"name":"get","title":"x"}`)); err == nil || !strings.Contains(err.Error(), "shop.get: offered twice") {
		t.Errorf("two of a name: %v", err)
	}
}

func TestLargeDefinition(t *testing.T) {
	size := testmode.Count(1<<20, 10<<20)
	f := shop(t, map[string]string{"shop.large": `{"name":"large","description":"` + strings.Repeat(`a\u00e9`, size/7) + `"}`})
	text := bytesOf(t, f)
	again, err := lock.Parse("vmcp.lock", text)
	if err != nil || len(lock.Compare(f, again)) > 0 {
		t.Errorf("read again: %v", err)
	}
}

// Indented, deeply nested text would be many times as long.
func TestFileIsBounded(t *testing.T) {
	f := shop(t, map[string]string{"shop.deep": `{"name":"deep","x":` + strings.Repeat("[", 400) + "1" + strings.Repeat(",1", 400_000) + strings.Repeat("]", 400) + `}`})
	if _, err := f.Bytes(); err == nil || !strings.Contains(err.Error(), "larger than 256 MB") {
		t.Errorf("Bytes: %v", err)
	}
	f = shop(t, map[string]string{"shop.deep": `{"x":` + strings.Repeat("[", 508) + strings.Repeat("]", 508) + `}`})
	if _, err := f.Bytes(); err == nil || !strings.Contains(err.Error(), "nests deeper") {
		t.Errorf("Bytes: %v", err)
	}
}

func take(now *lock.File, names ...string) func(*lock.File) error {
	return func(f *lock.File) error {
		for _, text := range names {
			n, err := lock.ParseName(text)
			if err != nil {
				return err
			}
			f.Take(now, n)
		}
		return nil
	}
}

func TestUpdate(t *testing.T) {
	now := shop(t, map[string]string{"shop.a": `{"name":"a"}`, "shop.b": `{"name":"b"}`})
	dir := t.TempDir()
	path := filepath.Join(dir, "vmcp.lock")
	update := func(path string, names ...string) bool {
		t.Helper()
		written, err := lock.Update(path, take(now, names...))
		if err != nil {
			t.Fatal(err)
		}
		return written
	}
	if !update(path, "shop.a") || update(path, "shop.a") {
		t.Error("the first time it is written, the second time it is the same")
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if update(path, "shop.a"); !same(t, before, path) {
		t.Error("a file that stays the same was touched")
	}
	if _, err := lock.Update(path, func(*lock.File) error { return errors.New("no") }); err == nil || !same(t, before, path) {
		t.Errorf("an update that is refused: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(path, []byte("broken"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Update(path, take(now, "shop.b")); err == nil {
		t.Error("a broken file was written over")
	}
}

func same(t *testing.T, before fs.FileInfo, path string) bool {
	t.Helper()
	now, err := os.Stat(path)
	return err == nil && os.SameFile(before, now) && now.ModTime().Equal(before.ModTime())
}

func TestUpdateFollowsLinksAndKeepsTheMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links and modes of Unix")
	}
	now := shop(t, map[string]string{"shop.a": `{"name":"a"}`, "shop.b": `{"name":"b"}`})
	dir := t.TempDir()
	path := filepath.Join(dir, "vmcp.lock")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "shared"), 0o755), os.Symlink("shared/real.lock", path)); err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(dir, "shared", "real.lock")
	if _, err := lock.Update(path, take(now, "shop.a")); err != nil { // the link leads to nothing yet
		t.Fatal(err)
	}
	if err := os.Chmod(real, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Update(path, take(now, "shop.b")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(real)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("%s: %v, %v", real, info, err)
	}
	if link, err := os.Readlink(path); err != nil || link != "shared/real.lock" {
		t.Errorf("the link: %q, %v", link, err)
	}
	if f, err := lock.Read(path); err != nil || len(f.Entries) != 2 {
		t.Errorf("Read = %v, %v", f, err)
	}
}

// No concurrent approval is lost.
func TestConcurrentUpdates(t *testing.T) {
	const people = 8
	entries := map[string]string{}
	for i := range people {
		entries[fmt.Sprintf("shop.t%d", i)] = fmt.Sprintf(`{"name":"t%d"}`, i)
	}
	now := shop(t, entries)
	path := filepath.Join(t.TempDir(), "vmcp.lock")
	var all sync.WaitGroup
	for name := range entries {
		all.Go(func() {
			if _, err := lock.Update(path, take(now, name)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if f, err := lock.Read(path); err != nil || len(f.Entries) != people {
		t.Errorf("Read = %v, %v", f, err)
	}
}

func TestTake(t *testing.T) {
	old := shop(t, map[string]string{"shop.a": `{"name":"a"}`, "shop.gone": `{"name":"gone"}`, "shop.left": `{"name":"left"}`})
	now := shop(t, map[string]string{"shop.a": `{"name":"a","title":"A"}`, "shop.b": `{"name":"b"}`})
	now.Backends["shop"] = lock.Backend{Instructions: "New."}
	if err := take(now, "shop.a", "shop.gone")(old); err != nil {
		t.Fatal(err)
	}
	want := shop(t, map[string]string{"shop.a": `{"name":"a","title":"A"}`, "shop.left": `{"name":"left"}`})
	if diff := cmp.Diff(want, old); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if err := take(now, "shop")(old); err != nil || old.Backends["shop"].Instructions != "New." {
		t.Errorf("instructions: %+v, %v", old.Backends, err)
	}
	old.TakeBackend(now, "shop")
	if diff := cmp.Diff(now, old); diff != "" {
		t.Errorf("a backend (-want +got):\n%s", diff)
	}
	old.TakeBackend(lock.New(), "shop")
	if old.Has("shop") {
		t.Errorf("a backend that is gone: %+v", old)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(golden))
	f.Add([]byte(`{"version":1,"backends":{"a":{}},"entries":{}}`))
	f.Add([]byte(`{"version":1,"entries":{"a.b":{"definition":{},"kind":"tool","sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := lock.Parse("vmcp.lock", text)
		if err != nil {
			return
		}
		out, err := file.Bytes()
		if err != nil {
			return
		}
		again, err := lock.Parse("vmcp.lock", out)
		if err != nil || len(lock.Compare(file, again)) > 0 {
			t.Fatalf("%q was written as %q and read as %v, %v", text, out, again, err)
		}
		if second, _ := again.Bytes(); !bytes.Equal(out, second) {
			t.Fatalf("%q, and then %q", out, second)
		}
	})
}
