package clients_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

var update = flag.Bool("update", false, "write the wanted files anew")

var options = clients.Options{Home: "/home/ann", Workspace: "/home/ann/shop"}

// TestRead compares what is read from each file of testdata with the want.json beside it.
func TestRead(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*/in.*")
	if err != nil || len(inputs) < 12 {
		t.Fatalf("%d files, %v", len(inputs), err)
	}
	for _, in := range inputs {
		t.Run(filepath.Base(filepath.Dir(in)), func(t *testing.T) {
			data, err := os.ReadFile(in)
			if err != nil {
				t.Fatal(err)
			}
			want := filepath.Join(filepath.Dir(in), "want.json")
			have := show(t, filepath.Base(in), data)
			if *update {
				if err := os.WriteFile(want, have, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(golden), string(have)); diff != "" {
				t.Errorf("%s (-want +have):\n%s", in, diff)
			}
			for name, changed := range map[string][]byte{
				"with a byte order mark": append([]byte("\xef\xbb\xbf"), data...),
				"with CRLF":              bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")),
			} {
				again := bytes.ReplaceAll(show(t, filepath.Base(in), changed), []byte(`\r\n`), []byte(`\n`))
				if !bytes.Equal(have, again) {
					t.Errorf("%s, %s, is read differently:\n%s", in, name, cmp.Diff(string(have), string(again)))
				}
			}
		})
	}
}

// show formats the result of Read as JSON, without empty fields.
func show(t *testing.T, name string, data []byte) []byte {
	t.Helper()
	f, err := clients.Read(name, data, options)
	if err != nil {
		var problems diag.Problems
		if !errors.As(err, &problems) || problems[0].Line < 1 || problems[0].Column < 1 {
			t.Fatalf("%s: %v has no place", name, err)
		}
		return []byte(err.Error() + "\n")
	}
	servers := []any{}
	for _, s := range f.Servers {
		servers = append(servers, filled(s))
	}
	variables := []any{}
	for _, v := range f.Variables {
		variables = append(variables, filled(v))
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"shape": f.Shape, "servers": servers, "variables": variables}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// filled returns the fields of a struct that are not empty.
func filled(s any) map[string]any {
	v, out := reflect.ValueOf(s), map[string]any{}
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsZero() {
			out[v.Type().Field(i).Name] = f.Interface()
		}
	}
	return out
}

// TestBounds: files that would exceed the bounds of memory or recursion are refused.
func TestBounds(t *testing.T) {
	for name, data := range map[string]string{
		"size":  `{"mcpServers":{}}` + strings.Repeat(" ", clients.MaxFile),
		"depth": `{"mcpServers":` + strings.Repeat("[", 100_000),
		"toml":  "a = " + strings.Repeat("[", 100_000),
		"nodes": `{"mcpServers":{"a":[` + strings.Repeat("1,", 1_100_000) + `]}}`,
		"alias": "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nextensions: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
		"servers": `{"mcpServers":{` + strings.TrimSuffix(strings.Repeat(`"s":{"command":"x"},`, 1_001), ",") + `}}`,
		"endless": "extensions: &a\n  b: *a\n",
		"text":    "{\"mcpServers\":\xff}",
	} {
		if f, err := clients.Read("x", []byte(data), options); err == nil {
			t.Errorf("%s: is read: %d servers", name, len(f.Servers))
		} else if len(err.Error()) > 300 {
			t.Errorf("%s: %.300s…", name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	inputs, err := filepath.Glob("testdata/*/in.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, in := range inputs {
		data, err := os.ReadFile(in)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := clients.Read("x", data, options)
		if err != nil {
			return
		}
		for _, s := range file.Servers {
			if s.Skipped == "" && (s.Name == "" || s.Name != clients.Name(s.Name) || (s.Command == "") == (s.URL == "")) {
				t.Errorf("%q gives %+v", data, s)
			}
		}
	})
}
