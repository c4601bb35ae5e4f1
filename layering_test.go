package vmcp

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/vmcp-dev/vmcp/"

// mayImport says which folders of ours the code of a folder may use; subfolders
// belong to their folder. A new folder gets a row before it may import any.
var mayImport = map[string][]string{
	"internal/diag":             {},
	"internal/clip":             {},
	"lock":                      {"internal/diag", "internal/files", "internal/jsonscan", "internal/visible"},
	"config/internal/document":  {"internal/diag", "internal/limits", "internal/spell"},
	"config/internal/envfile":   {"internal/diag", "internal/files"},
	"config/telemetry":          {"config/internal/document", "config/internal/validate", "internal/files"},
	"config/replicas":           {"config/internal/validate", "internal/limits"},
	"config/internal/validate":  {"config/internal/document", "config/internal/envfile", "internal/diag", "internal/schema", "internal/secret"},
	"config/durable":            {"config/internal/document", "config/internal/envfile", "config/internal/validate", "internal/files", "internal/limits", "internal/secret"},
	"config":                    {"config/durable", "config/internal/validate", "config/replicas", "config/telemetry", "config/internal/envfile", "script/check/codes", "lock", "config/internal/document", "internal/schema", "internal/diag", "internal/files", "internal/limits", "internal/hostname", "internal/secret", "internal/spell"},
	"config/fingerprint":        {"config", "internal/files", "internal/secret"},
	"config/kube/object":        {"config", "config/internal/document", "internal/diag", "internal/secret", "internal/spell"},
	"config/kube/crd":           {"config", "config/internal/document", "config/kube/object", "internal/limits"},
	"config/kube/resolve":       {"config", "config/kube/object", "internal/clip", "internal/diag", "internal/spell"},
	"script/internal/compile":   {"script/source", "script/internal/cover", "script/internal/meter", "script/internal/rewrite", "script/internal/tree", "internal/limits"},
	"config/kube/toolhive":      {"config", "config/internal/document", "config/kube/object", "config/kube/resolve", "internal/diag"},
	"config/kube/cluster":       {"config", "config/kube/object", "config/kube/resolve", "config/kube/toolhive", "internal/clip", "internal/diag"},
	"script/internal/cover":     {},
	"script/internal/ledger":    {"internal/limits", "script/internal/meter", "script/internal/pool"},
	"script":                    {"script/internal/ending", "script/internal/backtrace", "script/source", "script/journal", "script/internal/ledger", "script/internal/session", "script/internal/cover", "script/internal/message", "script/internal/pool", "internal/clip", "script/internal/compile", "script/internal/meter", "script/internal/value", "internal/limits"},
	"script/journal":            {"internal/limits", "script/internal/ledger"},
	"script/source":             {"script/internal/meter", "script/internal/rewrite", "script/internal/tree", "internal/diag", "internal/files", "internal/limits"},
	"script/isolate":            {"script", "builtins", "migrate/legacy"},
	"proxy/catalog/naming":      {},
	"proxy/catalog/pins":        {"config", "internal/diag", "lock"},
	"proxy/catalog/texts":       {"config", "internal/diag", "internal/files", "script", "script/source"},
	"script/check":              {"script", "script/source", "script/check/callable", "script/check/codes", "script/check/flow", "script/check/literal", "script/check/scope", "script/check/types", "script/check/uses", "internal/diag", "script/internal/tree", "internal/schema", "internal/spell"},
	"script/check/env":          {"script/check/scope", "script/check/types"},
	"script/check/narrow":       {"script/check/env", "script/check/operation", "script/check/scope", "script/check/types", "script/internal/tree"},
	"script/check/callable":     {"script/check/operation", "script/check/types"},
	"script/check/literal":      {"script", "script/internal/tree"},
	"script/check/fit":          {"script/check/finding", "script/check/types", "script/internal/tree", "internal/spell"},
	"script/check/flow":         {"script/check/callable", "script/check/env", "script/check/finding", "script/check/fit", "script/check/narrow", "script/check/operation", "script/check/scope", "script/check/types", "script/internal/tree", "internal/limits", "internal/spell"},
	"script/check/finding":      {"script/check/types", "internal/spell"},
	"script/check/operation":    {"script/check/types"},
	"script/check/scope":        {},
	"script/check/types":        {},
	"script/check/uses":         {"script/check/scope", "script/internal/tree"},
	"script/check/codes":        {},
	"script/internal/meter":     {"script/internal/cover", "script/internal/ending"},
	"script/internal/message":   {},
	"script/internal/ending":    {"internal/clip", "internal/spell"},
	"script/internal/backtrace": {"script/internal/ending"},
	"script/internal/pool":      {"internal/limits", "script/internal/meter"},
	"script/internal/metertest": {"internal/limits", "script/internal/meter"}, // for tests
	"script/internal/session":   {"script/internal/message"},
	"script/internal/rewrite":   {"script/internal/cover", "script/internal/meter", "script/internal/tree"},
	"script/internal/value":     {"internal/clip", "internal/limits", "script/internal/meter"},
	"script/internal/tree":      {"internal/spell"},
	"migrate":                   {"internal/schema", "internal/diag", "internal/spell"},
	"migrate/legacy":            {"script", "builtins", "internal/format"},
	"migrate/verify":            {"migrate", "migrate/legacy", "script", "builtins", "internal/schema"}, // runs what migrate wrote
	"internal/certs":            {"config", "internal/files"},
	"internal/files":            {},
	"internal/httpclient":       {},
	"internal/limits":           {},
	"internal/memlimit":         {},
	"internal/postgres":         {},
	"internal/jsonscan":         {},
	"internal/wire":             {"internal/jsonscan"},
	"internal/schema":           {"internal/clip", "internal/jsonscan"},
	"internal/format":           {},
	"internal/spell":            {},
	"internal/hostname":         {},
	"internal/origin":           {"internal/hostname"},
	"internal/secret":           {},
	"internal/visible":          {},
	"internal/definition":       {"internal/clip", "internal/jsonscan", "internal/wire"},
	"internal/starfmt":          {"internal/diag", "script", "script/source"},
	"internal/testkit":          {}, // for tests
	"internal/testmode":         {}, // for tests
	"audit":                     {},
	"auth":                      {"config", "internal/files", "internal/hostname"},
	"policy":                    {"config", "internal/diag", "internal/spell"},
	"quota":                     {"config"},
	"cluster/peers":             {"config", "internal/certs", "internal/httpclient", "internal/jsonscan", "runs"},
	"backends/credentials":      {"config", "internal/certs", "internal/files", "internal/hostname", "internal/secret"},
	"backends/bridge":           {"backends/internal/endpoint", "backends/internal/pace", "internal/jsonscan", "internal/wire"},
	"backends/backendtest":      {"config", "internal/jsonscan", "internal/wire", "internal/testmode"},
	"backends/lines":            {"internal/jsonscan", "internal/wire"},
	"backends":                  {"backends/lines", "backends/credentials", "backends/internal/child", "backends/internal/conn", "backends/internal/encode", "backends/internal/listing", "backends/internal/pace", "backends/internal/payload", "backends/internal/settings", "backends/internal/sharing", "config", "internal/jsonscan", "internal/secret", "internal/wire"},
	"builtins":                  {"internal/format", "script", "script/check", "internal/jsonscan", "internal/schema", "internal/wire"},
	"builtins/suite":            {"script/check", "builtins", "script", "script/journal", "script/source", "internal/clip", "internal/diag", "internal/files", "internal/jsonscan", "internal/schema", "internal/spell"},
	"cases":                     {"builtins", "script", "internal/clip", "internal/diag", "internal/files", "internal/jsonscan", "internal/schema", "internal/secret", "internal/spell", "internal/visible"},
	"proxy":                     {"proxy/catalog/scripted", "proxy/catalog/pins", "config/durable", "cluster/peers", "proxy/routing", "proxy/edge/ids", "proxy/edge/body", "proxy/console", "proxy/gate", "proxy/history", "proxy/host", "backends/lines", "config/fingerprint", "proxy/admin", "proxy/overview", "proxy/shape", "proxy/status", "proxy/members", "proxy/suspended", "proxy/notifier", "proxy/login", "proxy/outward", "proxy/runs", "runs", "runs/notify", "runs/memory", "runs/seal", "runs/settings", "internal/limits", "script/check", "cases", "internal/clip", "audit", "proxy/access", "backends/credentials", "proxy/catalog", "proxy/edge", "proxy/subscriptions", "proxy/adapt", "proxy/admission", "proxy/outcome", "proxy/metrics", "proxy/trace", "proxy/record", "auth", "policy", "quota", "config", "backends", "script", "script/isolate", "builtins", "internal/diag", "internal/jsonscan", "internal/secret", "internal/wire", "proxy/recording", "proxy/overlay", "proxy/tasks", "proxy/spans", "cluster"},
	"proxy/routing":             {"auth", "cluster", "cluster/peers", "internal/jsonscan", "internal/wire", "proxy/edge", "proxy/edge/ids"},
	"proxy/status":              {"backends/lines", "internal/diag"},
	"proxy/shape":               {"internal/jsonscan"},
	"proxy/overview":            {"backends", "config", "internal/diag", "internal/jsonscan", "internal/schema", "proxy/shape", "proxy/catalog", "proxy/status"},
	"proxy/admin":               {"backends/lines", "internal/jsonscan", "internal/spell", "proxy/status"},
	"proxy/host":                {"proxy/catalog/scripted", "auth", "backends", "builtins", "internal/jsonscan", "internal/secret", "internal/wire", "migrate/legacy", "proxy/adapt", "proxy/admission", "proxy/catalog", "proxy/edge", "proxy/history", "proxy/metrics", "proxy/outcome", "proxy/recording", "proxy/runs", "proxy/spans", "proxy/trace", "runs", "script", "script/journal"},
	"proxy/gate":                {"auth", "config", "internal/files", "internal/origin"},
	"proxy/events":              {},
	"proxy/history":             {"internal/clip", "internal/jsonscan", "internal/secret", "proxy/status", "runs", "script"},
	"proxy/page":                {"backends/lines", "internal/clip", "internal/jsonscan", "internal/visible", "proxy/status"},
	"proxy/console":             {"backends/lines", "auth", "backends", "config", "internal/jsonscan", "internal/wire", "proxy/admin", "proxy/edge", "proxy/events", "proxy/gate", "proxy/history", "proxy/page", "proxy/suspended", "proxy/status", "runs", "runs/answers"},
	"runs/answers":              {"internal/schema", "runs"},
	"proxy/recording":           {"cases", "config", "internal/secret", "proxy/trace", "script"},
	"proxy/spans":               {"internal/jsonscan", "proxy/outcome"},
	"proxy/tasks":               {"cluster", "internal/jsonscan", "proxy/catalog", "proxy/edge"},
	"proxy/profile":             {"config"},
	"proxy/overlay":             {"backends", "proxy/catalog"},
	"proxy/outward":             {"auth", "backends/credentials", "config"},
	"proxy/login":               {"backends", "backends/credentials", "internal/jsonscan"},
	"proxy/notifier":            {"config/durable", "backends", "config", "internal/jsonscan", "internal/wire", "proxy/runs", "runs", "runs/notify", "runs/seal"},
	"proxy/suspended":           {"proxy/edge/body", "auth", "backends", "internal/jsonscan", "internal/wire", "proxy/edge", "runs", "runs/seal"},
	"proxy/members":             {"internal/jsonscan", "internal/wire", "proxy/adapt", "proxy/runs", "proxy/trace"},
	"proxy/validation":          {"proxy/catalog/scripted", "auth", "config", "internal/diag", "policy", "proxy/catalog", "script/check"},
	"proxy/edge/body":           {},
	"proxy/edge/ids":            {"internal/clip", "internal/jsonscan", "runs"},
	"proxy/edge/stream":         {"internal/wire"},
	"proxy/edge":                {"proxy/edge/ids", "proxy/edge/body", "proxy/edge/stream", "proxy/gate", "proxy/profile", "auth", "backends", "config", "internal/files", "internal/jsonscan", "internal/origin", "internal/wire"},
	"proxy/subscriptions":       {"proxy/catalog", "proxy/edge", "backends", "internal/jsonscan", "internal/wire"},
	"proxy/runs":                {"internal/jsonscan", "internal/wire", "proxy/outcome", "runs", "script"},
	"proxy/outcome":             {"auth", "backends", "builtins", "internal/jsonscan", "internal/wire", "script"},
	"proxy/metrics":             {"proxy/catalog", "proxy/status", "backends", "internal/wire", "policy", "proxy/edge", "proxy/outcome", "script"},
	"proxy/trace":               {"cases", "internal/clip", "internal/secret", "script"},
	"proxy/record":              {"audit", "auth", "config", "internal/clip", "internal/jsonscan", "internal/secret", "internal/wire", "proxy/catalog/pins", "proxy/edge", "proxy/outcome"},
	"proxy/access":              {"auth", "builtins", "config", "policy", "proxy/catalog", "internal/diag"},
	"proxy/admission":           {"config", "script", "internal/wire"},
	"proxy/adapt":               {"backends", "internal/jsonscan", "internal/wire"},
	"proxy/catalog":             {"proxy/catalog/naming", "proxy/catalog/pins", "proxy/catalog/scripted", "proxy/profile", "internal/clip", "lock", "config", "policy", "backends", "script", "script/check", "internal/definition", "internal/diag", "internal/jsonscan", "internal/schema", "internal/spell", "internal/visible", "internal/wire"},
	"proxy/catalog/scripted":    {"builtins", "builtins/suite", "config", "internal/diag", "internal/files", "internal/jsonscan", "internal/schema", "internal/wire", "lock", "migrate", "migrate/legacy", "proxy/catalog/pins", "proxy/catalog/texts", "script", "script/check"},
	"cluster":                   {"config", "internal/postgres", "runs"},
	"runs":                      {"internal/postgres", "script", "script/journal", "script/journal/journaltest", "internal/jsonscan", "internal/limits"},
	"runs/open":                 {"config/durable", "runs", "runs/settings", "config"},
	"runs/settings":             {"runs", "config"},
	"runs/runstest/pgtest":      {"internal/testmode"},
	"examples":                  {},
	"bench":                     {"test/rig"},
	"test/rig":                  {},
	"cmd":                       {"proxy/catalog/scripted", "config/durable", "config/telemetry", "proxy/metrics", "cluster", "runs/settings", "proxy/status", "proxy/validation", "config/kube/cluster", "config/kube/resolve", "config/kube/toolhive", "script/source", "script/check/codes", "script/check/types", "builtins/suite", "proxy/catalog", "migrate/legacy", "cases", "lock", "runs", "runs/answers", "runs/seal", "runs/open", "internal/limits", "internal/starfmt", "script/check", "internal/certs", "internal/clip", "backends/credentials", "auth", "policy", "config", "backends", "backends/bridge", "script", "script/isolate", "builtins", "migrate", "migrate/verify", "proxy", "proxy/edge", "proxy/trace", "internal/diag", "internal/files", "internal/hostname", "internal/jsonscan", "internal/memlimit", "internal/origin", "internal/secret", "internal/visible", "internal/wire", "internal/schema", "internal/spell", "examples", "config/kube/object", "config/kube/resolve"},

	"backends/internal/child":     {"internal/secret"},
	"backends/internal/conn":      {"backends/credentials", "backends/internal/child", "backends/internal/deadline", "backends/internal/encode", "backends/internal/endpoint", "backends/internal/listing", "backends/internal/pace", "backends/internal/payload", "backends/internal/questions", "backends/internal/queue", "config", "internal/certs", "internal/clip", "internal/httpclient", "internal/jsonscan", "internal/secret", "internal/wire"},
	"backends/internal/deadline":  {},
	"backends/internal/encode":    {"internal/jsonscan", "internal/wire"},
	"backends/internal/endpoint":  {"backends/internal/pace", "internal/httpclient", "internal/wire"},
	"backends/internal/questions": {},
	"backends/internal/settings":  {"backends/internal/pace", "config"},
	"backends/internal/sharing":   {"internal/wire"},
	"backends/internal/listing":   {"internal/jsonscan", "internal/wire"},
	"backends/internal/pace":      {"config"},
	"backends/internal/payload":   {"backends/internal/deadline", "internal/jsonscan", "internal/wire"},
	"script/journal/journaltest":  {"script", "script/journal"}, // for tests
	"backends/internal/queue":     {"backends/internal/payload", "internal/wire"},
}

// layer is the row that a folder belongs to, or "".
func layer(folder string) string {
	for f := folder; f != "."; f = path.Dir(f) {
		if _, ok := mayImport[f]; ok {
			return f
		}
	}
	return ""
}

// violations lists the imports against the table. Tests, and the folder test, may import anything.
func violations(tree fs.FS) ([]string, error) {
	var found []string
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (name == "test" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || path.Dir(name) == "." {
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		from := layer(path.Dir(name))
		for _, spec := range file.Imports {
			full, _ := strconv.Unquote(spec.Path.Value)
			ours, ok := strings.CutPrefix(full, module)
			if to := layer(ours); ok && (from == "" || to != from && !slices.Contains(mayImport[from], to)) {
				found = append(found, fmt.Sprintf("%s: %s may not import %s", name, path.Dir(name), ours))
			}
		}
		return nil
	})
	return found, err
}

func TestLayers(t *testing.T) {
	found, err := violations(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

func TestLayersAreSeen(t *testing.T) {
	source := func(imports string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("package p\nimport _ \"" + module + imports + "\"\n")}
	}
	found, err := violations(fstest.MapFS{
		"script/bad.go":             source("proxy"),
		"script/bad_test.go":        source("proxy"),
		"script/isolate/good.go":    source("script"),
		"cmd/vmcp/good.go":          source("proxy/status"),
		"examples/bad.go":           source("config"),
		"backends/backendtest/b.go": source("cmd/vmcp"),
		"newcomer/bad.go":           source("config"),
		"test/raw/good.go":          source("proxy"),
	})
	want := []string{
		"backends/backendtest/b.go: backends/backendtest may not import cmd/vmcp",
		"examples/bad.go: examples may not import config",
		"newcomer/bad.go: newcomer may not import config",
		"script/bad.go: script may not import proxy",
	}
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("violations = %q, %v\nwant %q", found, err, want)
	}
}
