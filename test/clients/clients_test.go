//go:build npm

package clients

import (
	"bytes"
	"context"
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/test/rig"
)

var update = flag.Bool("update", false, "rewrite docs/clients.md")

//go:embed npm
var scripts embed.FS

// world is the common state of all tests.
var world struct {
	npm      *rig.Packages
	dir      string // with our scripts and the packages below it
	bin      string // the folder of vmcp and the example servers
	chromium string // "" when there is none
	page     string // the URL of a page for browsers
}

func TestMain(m *testing.M) {
	code, err := prepareAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func prepareAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "clients")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	if err := prepare(ctx, dir); err != nil {
		return 0, err
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,"><title>Through</title><h1>is direct</h1><button>Press é</button>`)
	}))
	defer site.Close()
	world.page = site.URL
	return m.Run(), nil
}

// prepare installs missing packages, and builds the programs of this module.
func prepare(ctx context.Context, dir string) error {
	manifest, err := fs.Sub(scripts, "npm")
	if err != nil {
		return err
	}
	if world.npm, err = rig.InstallFrom(ctx, manifest); err != nil {
		return err
	}
	world.dir, world.bin = dir, filepath.Join(dir, "bin")
	if err := os.Symlink(world.npm.Path(""), filepath.Join(dir, "node_modules")); err != nil {
		return err
	}
	for _, name := range []string{"drive.mjs", "definitions.mjs", "page.mjs", "admin.mjs"} {
		text, err := fs.ReadFile(manifest, name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	if err := build(ctx); err != nil {
		return err
	}
	world.chromium, err = findChromium(ctx)
	return err
}

// build builds the commands that the README installs.
func build(ctx context.Context) error {
	const module = "github.com/vmcp-dev/vmcp/"
	if err := os.MkdirAll(world.bin, 0o755); err != nil {
		return err
	}
	args := []string{"build", "-o", world.bin, module + "examples/backends/workspace/cmd/workspace", module + "examples/backends/yamlfile/cmd/yamlfile"}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	vmcp, err := rig.Build(ctx, world.bin)
	if err != nil || vmcp == program("vmcp") {
		return err
	}
	if vmcp, err = filepath.Abs(vmcp); err != nil {
		return err
	}
	return os.Symlink(vmcp, program("vmcp"))
}

func program(name string) string { return filepath.Join(world.bin, name) }

// findChromium finds Debian's Chromium, or installs it where that is possible. Without it
// Playwright's server is skipped, which fails in CI.
func findChromium(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("chromium"); err == nil {
		return path, nil
	}
	var why error
	if os.Geteuid() == 0 {
		why = aptInstall(ctx, "chromium")
	} else {
		why = fmt.Errorf("chromium: only root can install it")
	}
	path, err := exec.LookPath("chromium")
	if err == nil {
		return path, nil
	}
	if os.Getenv("CI") == "true" {
		return "", fmt.Errorf("no chromium for Playwright's server: %w", why)
	}
	fmt.Fprintf(os.Stderr, "\n*** PLAYWRIGHT'S SERVER IS LEFT OUT: no chromium here: %v ***\n\n", why)
	return "", nil
}

func aptInstall(ctx context.Context, name string) error {
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", name}} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// testTimeout bounds the wait for a process, also beside a busy compiler.
const testTimeout = 4 * time.Minute

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}
