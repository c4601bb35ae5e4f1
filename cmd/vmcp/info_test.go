package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestManual: vmcp man writes a page for each command that help lists, and the same bytes for the same date.
func TestManual(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767322800")
	first, second := filepath.Join(t.TempDir(), "man"), t.TempDir()
	for _, dir := range []string{first, second} {
		var stderr bytes.Buffer
		if code := run([]string{"man", dir}, strings.NewReader(""), &stderr, &stderr); code != exitDone {
			t.Fatalf("vmcp man exits %d: %s", code, &stderr)
		}
	}
	pages := 0
	eachCommand(new(app).root(), func(c *cobra.Command) {
		pages++
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Error(err)
			return
		}
		again, err := os.ReadFile(filepath.Join(second, name))
		if err != nil || !bytes.Equal(page, again) {
			t.Errorf("%s is not the same twice: %v", name, err)
		}
		if !bytes.Contains(page, []byte(`"1" "Jan 2026" "vmcp `)) || !bytes.Contains(page, []byte(c.Short)) {
			t.Errorf("%s lacks its date or what the command is for:\n%.400s", name, page)
		}
	})
	if files, err := os.ReadDir(first); err != nil || len(files) != pages || pages < 30 {
		t.Errorf("%d pages for %d commands, %v", len(files), pages, err)
	}
}

// eachCommand visits a command and its subcommands that help lists.
func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			eachCommand(below, visit)
		}
	}
}
