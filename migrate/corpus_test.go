package migrate_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/vmcp-dev/vmcp/migrate"
)

// TestCorpus migrates every workflow in the folder VMCP_CORPUS in both styles. Each has to
// become a script, or be refused with positions: read as a file and as in a
// cluster, which drops unknown fields; also with --fix.
func TestCorpus(t *testing.T) {
	dir := os.Getenv("VMCP_CORPUS")
	if dir == "" {
		t.Skip("VMCP_CORPUS names no folder with workflows")
	}
	for _, file := range glob(t, filepath.Join(dir, "*.yaml")) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			defs, err := migrate.Parse(file, data)
			if err != nil {
				t.Fatal(err)
			}
			if d, err := migrate.ParseResource(file, data); err == nil {
				defs = append(defs, d)
			}
			for _, d := range defs {
				for _, o := range []migrate.Options{{}, {Style: migrate.Clean}, {Fix: true}, {Style: migrate.Clean, Fix: true}} {
					migrateOne(t, d, o)
				}
			}
		})
	}
}

func migrateOne(t *testing.T, d *migrate.Definition, o migrate.Options) {
	s, err := migrate.Translate(d, o)
	if err != nil {
		t.Logf("fix %v: refused\n%v", o.Fix, err)
		return
	}
	compiles(t, s)
}
