package vmcp

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/vmcp-dev/vmcp/"

// mayImport says which rooms the code of a room may use besides itself. A room is a folder at the root with all that is
// below it; internal stands for every internal folder of the root, which use each other only.
var mayImport = map[string][]string{
	"internal": {},
	"config":   {"internal"},
	"script":   {"config", "internal"},
	"builtins": {"script", "config", "internal"},
	"migrate":  {"builtins", "script", "config", "internal"},
	"backends": {"config", "internal"},
	"proxy":    {"migrate", "builtins", "script", "backends", "config", "internal"},
	"cmd":      {"proxy", "migrate", "builtins", "script", "backends", "config", "internal", "examples"},
	"examples": {},
}

// configBelow are the folders of script that may use config: the store that a configuration names.
var configBelow = []string{"script/durable/sqlstore"}

// violations lists the imports against the table, and the circles of folders. Tests, and what is no room of the
// program, may import anything.
func violations(packages map[string]*folder) (found []string) {
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if outsideTheProgram(name) && room(name) != "examples" {
			continue
		}
		allowed, ok := mayImport[room(name)]
		if !ok {
			found = append(found, fmt.Sprintf("%s is in no room: the rooms are %v", name, slices.Sorted(maps.Keys(mayImport))))
			continue
		}
		for _, to := range slices.Sorted(maps.Keys(packages[name].imports)) {
			inside := room(to) == room(name) || strings.HasPrefix(to, "examples") && name == "cmd/vmcp"
			if !inside && !slices.Contains(allowed, room(to)) || room(name) == "script" && room(to) == "config" && !slices.Contains(configBelow, name) {
				found = append(found, fmt.Sprintf("%s may not import %s", name, to))
			}
		}
	}
	return found
}

func room(folder string) string {
	top, _, _ := strings.Cut(folder, "/")
	return top
}

func TestLayers(t *testing.T) {
	for _, v := range violations(readFolders(t, ".")) {
		t.Error(v)
	}
}

func TestLayersAreSeen(t *testing.T) {
	uses := func(imports ...string) *folder {
		f := &folder{imports: map[string]bool{}}
		for _, i := range imports {
			f.imports[i] = true
		}
		return f
	}
	found := violations(map[string]*folder{
		"script":                  uses("proxy", "internal/diag"),
		"script/check":            uses("config"),
		"script/durable/sqlstore": uses("config", "script/durable"),
		"cmd/vmcp":                uses("proxy/status", "examples"),
		"examples/demo":           uses("config"),
		"backends/backendtest":    uses("cmd/vmcp"),
		"internal/wire":           uses("internal/jsonscan", "config"),
		"newcomer":                uses("config"),
		"test/raw":                uses("proxy"),
	})
	want := []string{
		"backends/backendtest may not import cmd/vmcp",
		"examples/demo may not import config",
		"internal/wire may not import config",
		"newcomer is in no room: the rooms are [backends builtins cmd config examples internal migrate proxy script]",
		"script may not import proxy",
		"script/check may not import config",
	}
	if !slices.Equal(found, want) {
		t.Errorf("violations = %q\nwant %q", found, want)
	}
}

const (
	// mostFanOut bounds the packages of ours that a package imports, mostWiring those of the packages that connect the
	// others.
	mostFanOut = 20
	mostWiring = 36
)

// wiring are the packages that connect the others.
var wiring = []string{"proxy", "cmd/vmcp"}

// TestFanOut: a package that imports many others is known to the reader of many others.
func TestFanOut(t *testing.T) {
	for name, f := range readFolders(t, ".") {
		most := mostFanOut
		if slices.Contains(wiring, name) {
			most = mostWiring
		}
		if n := len(f.imports); n > most && !outsideTheProgram(name) {
			t.Errorf("%s imports %d packages of ours, want at most %d", name, n, most)
		}
	}
}

// nouns are subfolders that stand for the third reason: a noun of the field that a stranger would search for, with what
// else speaks for a folder. Helpers of tests, whose names end with test, need no reason, and neither do commands.
var nouns = map[string]string{
	"backends/bridge":             "stdio bridge: a process of its own beside the endpoint",
	"backends/internal/child":     "child process: pipes, process group, end",
	"backends/internal/conn":      "connection: the largest part of backends, known to one file of them",
	"backends/internal/endpoint":  "HTTP endpoint: requests, redirects, event streams",
	"builtins/cases":              "recorded cases",
	"builtins/suite":              "test suite of scripts",
	"cmd/vmcp/internal/author":    "commands of authors",
	"cmd/vmcp/internal/cli":       "command line",
	"cmd/vmcp/internal/editor":    "language server and prompt",
	"cmd/vmcp/internal/migration": "commands of migration",
	"cmd/vmcp/internal/operate":   "commands of operators",
	"cmd/vmcp/internal/serve":     "several servers of one process",
	"config/certs":                "certificates",
	"config/internal/document":    "YAML document with places",
	"config/kube/cluster":         "API server: the one package with client-go",
	"config/kube/crd":             "CustomResourceDefinition: run by go generate",
	"config/kube/object":          "objects of Kubernetes",
	"config/kube/resolve":         "references between objects",
	"config/kube/toolhive":        "ToolHive",
	"internal/codes":              "codes of problems",
	"internal/format":             "bounded formats",
	"internal/regex":              "what patterns cost",
	"internal/hostname":           "host names",
	"internal/limits":             "limits",
	"internal/memlimit":           "soft memory limit of Go",
	"internal/postgres":           "PostgreSQL",
	"migrate/internal/gotmpl":     "Go templates",
	"migrate/internal/star":       "tree of a script",
	"migrate/legacy":              "legacy engine",
	"migrate/verify":              "verification against recorded runs",
	"proxy/audit":                 "audit log",
	"proxy/observe":               "metrics and spans",
	"proxy/operate":               "admin page and API",
	"proxy/subscriptions":         "subscriptions",
	"script/check":                "checker",
	"script/check/types":          "types",
	"script/durable":              "durable runs",
	"script/durable/sqlstore":     "SQL store",
	"script/format":               "formatter",
}

// helpsTests reports whether a folder is imported by tests only.
func helpsTests(folder string) bool {
	return strings.HasSuffix(folder, "test") || folder == "internal/testkit" || folder == "internal/testmode"
}

// TestFoldersHaveReasons: a subfolder has two reasons of three: two importers; a test of its own that needs nothing of its
// parent; a noun of the field. One reason is a file.
func TestFoldersHaveReasons(t *testing.T) {
	packages := readFolders(t, ".")
	importers := map[string]int{}
	for name, f := range packages {
		for to := range f.imports {
			if room(name) != "test" {
				importers[to]++
			}
		}
	}
	for name, f := range packages {
		if outsideTheProgram(name) || !strings.Contains(name, "/") || helpsTests(name) || f.main {
			continue
		}
		reasons := 0
		if importers[name] >= 2 {
			reasons++
		}
		if f.tests > 0 && (!f.testImports[path.Dir(name)] || nouns[name] != "") {
			reasons++
		}
		if nouns[name] != "" {
			reasons++
		}
		if reasons < 2 {
			t.Errorf("%s has %d of two reasons (%d importers, %d tests): make it a file of what imports it", name, reasons, importers[name], f.tests)
		}
	}
	for name := range nouns {
		if packages[name] == nil {
			t.Errorf("nouns has %s, which is no folder with code", name)
		}
	}
}

// mostUntested is how many lines of a package need no test in its folder.
const mostUntested = 300

// TestTestsLieBesideTheirCode: whoever changes a package runs go test in its folder.
func TestTestsLieBesideTheirCode(t *testing.T) {
	for name, f := range readFolders(t, ".") {
		if f.lines > mostUntested && f.tests == 0 && !outsideTheProgram(name) && !helpsTests(name) {
			t.Errorf("%s has %d lines and no test in its folder", name, f.lines)
		}
	}
}
