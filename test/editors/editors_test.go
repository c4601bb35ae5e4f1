//go:build npm

package editors

import (
	"context"
	"embed"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/test/rig"
)

//go:embed npm
var files embed.FS

func TestLanguageServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	vmcp, err := rig.Build(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c, err := rig.Program(ctx, dir, files, "drive.mjs")
	if err == nil {
		err = os.CopyFS(filepath.Join(dir, "shop"), os.DirFS("../../cmd/vmcp/internal/editor/testdata/shop"))
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Args = append(c.Args, vmcp, filepath.Join(dir, "shop"))
	c.Stderr = os.Stderr
	raw, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	var got, want map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if err := json.Unmarshal([]byte(`{
		"server": "vmcp", "saved": [], "exit": 0,
		"tools": ["shop_get_order", "shop_refund"], "arguments": ["id"],
		"fields": ["buyer", "coupon", "id", "status", "total"], "half": ["syntax"],
		"wrong": ["unused", "result-field"], "fix": ["\"status\""], "hover": "call_tool(name, args={}, timeout=None)",
		"definition": "lib/money.star:0", "renamed": 3, "formatted": 0
	}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the session (-want +got):\n%s", diff)
	}
}
