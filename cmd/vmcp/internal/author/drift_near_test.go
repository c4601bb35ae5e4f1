package author_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/author"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

const (
	getOrder = `{"name": "get_order", "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},` +
		` "outputSchema": {"type": "object", "properties": {"status": {"enum": ["new", "paid"]}}, "required": ["status"]}}`
	respelt   = `{"outputSchema": {"required": ["status"], "properties": {"status": {"enum": ["new", "paid"]}}, "type": "object"}, "inputSchema": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}, "name": "get_order"}`
	twoShops  = "backends:\n  - {name: shop, url: \"http://127.0.0.1:9/mcp\"}\n  - {name: mail, url: \"http://127.0.0.1:9/mcp\"}\nscripts: [tools]\naggregation:\n  conflictResolution: prefix\n  conflictResolutionConfig: {prefixFormat: \"{workload}_\"}\n"
	oneShop   = "backends:\n  - {name: shop, url: \"http://127.0.0.1:9/mcp\"}\nscripts: [tools]\naggregation:\n  conflictResolution: prefix\n  conflictResolutionConfig: {prefixFormat: \"{workload}_\"}\n"
	paid      = "tool(name = \"paid\", description = \"P.\")\n\ndef run(params):\n    return call_tool(\"shop_get_order\", {\"id\": \"1\"})[\"status\"] == \"paid\"\n"
	other     = "tool(name = \"other\", description = \"O.\")\n\ndef run(params):\n    return 1\n"
	hidesTool = "  tools:\n    - {workload: shop, filter: [other]}\n"
)

// near is a configuration that resembles the mistake of a code and is correct. If live is nil, the backends offer what the lock has.
type near struct {
	code, config string
	files        map[string]string
	locked, live map[string]string // definitions by backend.tool
}

// nearMisses are the cases for codes whose checks need a configuration.
var nearMisses = []near{
	{"tool-duplicate", oneShop, map[string]string{"tools/paid.star": paid, "tools/other.star": other}, map[string]string{"shop.get_order": getOrder}, nil},
	{"tool-duplicate", oneShop, map[string]string{"tools/get_order.star": strings.ReplaceAll(paid, `"paid", d`, `"get_order", d`)}, map[string]string{"shop.get_order": getOrder}, nil},
	{"tool-duplicate", oneShop + hidesTool, map[string]string{"tools/a.star": strings.ReplaceAll(other, `"other"`, `"shop_get_order"`)}, map[string]string{"shop.get_order": getOrder}, nil},
	{"lock-incomplete", oneShop, map[string]string{"tools/paid.star": paid}, map[string]string{"shop.get_order": getOrder}, nil},
	{"lock-incomplete", twoShops, map[string]string{"tools/paid.star": paid}, map[string]string{"shop.get_order": getOrder, "mail.prompt:x": ""}, nil},
	{"lock-incomplete", strings.Replace(oneShop, "shop", "\"shop\"", 1), map[string]string{"tools/other.star": other}, map[string]string{"shop.get_order": getOrder, "gone.tool": getOrder}, nil},
	{"drift", oneShop, map[string]string{"tools/paid.star": paid}, map[string]string{"shop.get_order": getOrder}, map[string]string{"shop.get_order": getOrder}},
	{"drift", oneShop, map[string]string{"tools/paid.star": paid}, map[string]string{"shop.get_order": getOrder}, map[string]string{"shop.get_order": respelt}},
	{"drift", oneShop, map[string]string{"tools/other.star": other}, map[string]string{"shop.get_order": getOrder},
		map[string]string{"shop.get_order": strings.TrimSuffix(getOrder, "}") + `, "_meta": {"version": 2}, "icons": [{"src": "data:,"}]}`}},
}

func lockOf(t *testing.T, tools map[string]string) *lock.File {
	f := lock.New()
	for name, definition := range tools {
		backend, own, _ := strings.Cut(name, ".")
		f.Backends[backend] = lock.Backend{}
		if definition == "" {
			continue
		}
		if err := f.Add(lock.Name{Kind: lock.Tool, Backend: backend, Own: own}, json.RawMessage(definition)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func TestNearMissesAreSilent(t *testing.T) {
	for _, n := range nearMisses {
		dir := t.TempDir()
		for name, text := range n.files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cfg, err := config.Parse(filepath.Join(dir, "vmcp.yaml"), []byte(n.config))
		if err != nil {
			t.Fatal(err)
		}
		locked := lockOf(t, n.locked)
		_, problems := proxy.CheckWith(cfg, catalog.Known{Lock: locked})
		if n.live != nil {
			problems = append(problems, author.Problems(cfg, locked, lockOf(t, n.live))...)
		}
		for _, p := range problems {
			t.Errorf("near %s: %s", n.code, p.Error())
		}
	}
}
