package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// version is a release candidate: its packages must sort before those of the release.
const version = "0.9.1-rc.1"

var here = host()

// work is the folder in which the tests of this package build.
var work string

func TestMain(m *testing.M) {
	var err error
	if work, err = os.MkdirTemp("", "vmcp-packaging"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(work)
	os.Exit(code)
}

// built is the folder with a release for this platform.
var built = sync.OnceValue(func() string { return buildIn("first") })

// clone is the folder of the sources that the release of built was made of.
func clone() string { return filepath.Join(work, "first", "sources") }

// buildIn commits the files of this working tree in a folder of that name, and builds a release from there.
func buildIn(name string) string {
	sources, out := filepath.Join(work, name, "sources"), filepath.Join(work, name, "dist")
	root, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	command := exec.Command("sh", "-euc", `
		mkdir -p "$SOURCES"
		git ls-files -z --cached --others --exclude-standard | xargs -0 -r cp --parents -P -t "$SOURCES"
		cd "$SOURCES"
		git -c init.defaultBranch=main init -q
		git add -A
		git -c user.name=test -c user.email=test@example.com commit -q -m "sources: as they are"`)
	command.Dir = root
	command.Env = append(os.Environ(), "SOURCES="+sources, "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	if said, err := command.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("commit the sources: %v\n%s", err, said))
	}
	os.Unsetenv("SOURCE_DATE_EPOCH") // set by an earlier build
	var stderr bytes.Buffer
	if err := run([]string{"-source", sources, "v" + version, out, "--only", here.String()}, &stderr); err != nil {
		panic(fmt.Sprintf("build: %v\n%s", err, &stderr))
	}
	return out
}

// artefactOf returns the path of an artefact for this platform.
func artefactOf(t *testing.T, ending string) string {
	t.Helper()
	path := filepath.Join(built(), "vmcp_"+version+"_"+here.os+"_"+here.arch+ending)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// need skips a test if a program is missing, but fails it in CI, where .ci/run installs all of them.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
}

// output runs a command that must succeed and returns its output.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, &stderr)
	}
	return string(out)
}

// TestReproducible: a build of the same commit in another folder is equal byte for byte, and checksums.txt is correct.
func TestReproducible(t *testing.T) {
	first, err := os.ReadFile(filepath.Join(built(), "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(filepath.Join(buildIn("second"), "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Errorf("two builds are not the same:\n%s\n%s", first, second)
	}
	if n := bytes.Count(first, []byte("\n")); n != 8 {
		t.Errorf("checksums.txt has %d lines, want 8:\n%s", n, first)
	}
	cmd := exec.Command("sha256sum", "--check", "--strict", "checksums.txt")
	cmd.Dir = built()
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, said)
	}
}

// TestArchive: the archive has the program, which prints its version and commit, and the accompanying files.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	names := untar(t, artefactOf(t, ".tar.gz"), dir)
	for _, want := range []string{"vmcp", "LICENSE", "README.md", "CHANGELOG.md", licensesFile, "completions/vmcp.bash", "completions/_vmcp", "completions/vmcp.fish", "completions/vmcp.ps1", "man/vmcp.1", "man/vmcp-serve.1"} {
		if !slices.Contains(names, want) {
			t.Errorf("the archive has no %s: %v", want, names)
		}
	}
	var said struct{ Version, Commit, Date, OS, Arch string }
	if err := json.Unmarshal([]byte(output(t, filepath.Join(dir, "vmcp"), "version", "-o", "json")), &said); err != nil {
		t.Fatal(err)
	}
	commit := strings.TrimSpace(output(t, "git", "-C", clone(), "rev-parse", "HEAD"))
	if said.Version != version || said.Commit != commit || said.Date != "2026-01-02T03:04:05Z" || said.OS != here.os || said.Arch != here.arch {
		t.Errorf("vmcp version says %+v, want %s of commit %s", said, version, commit)
	}
	if out := output(t, "go", "version", "-m", filepath.Join(dir, "vmcp")); !strings.Contains(out, "vcs.revision="+commit) || !strings.Contains(out, "vcs.modified=false") {
		t.Errorf("the toolchain has recorded no commit:\n%s", out)
	}
}

// TestWindows: the archive for Windows is a zip file with vmcp.exe.
func TestWindows(t *testing.T) {
	dir := t.TempDir()
	stage := filepath.Join(dir, "stage")
	for _, name := range []string{"completions/vmcp.ps1", "man/vmcp.1", licensesFile, "vmcp.exe"} {
		path := filepath.Join(stage, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := &release{source: clone(), version: version}
	built()
	if err := r.archive(artefact{platform: platform{"windows", "arm64"}, binary: filepath.Join(stage, "vmcp.exe"), stage: stage, out: dir}); err != nil {
		t.Fatal(err)
	}
	z, err := zip.OpenReader(filepath.Join(dir, "vmcp_"+version+"_windows_arm64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	if want := []string{"CHANGELOG.md", "LICENSE", "README.md", licensesFile, "completions/vmcp.ps1", "man/vmcp.1", "vmcp.exe"}; !slices.Equal(names, want) {
		t.Errorf("the zip file has %v, want %v", names, want)
	}
}

// TestUsage: wrong usage is reported, and a folder that is not a release is not emptied.
func TestUsage(t *testing.T) {
	precious := t.TempDir()
	if err := os.WriteFile(filepath.Join(precious, "thesis.txt"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"nothing", "usage: ", nil},
		{"no folder", "usage: ", []string{"1.2.0"}},
		{"no version", `version "latest": want one such as 1.2.0`, []string{"latest", t.TempDir()}},
		{"half a version", `version "1.2": want one such as 1.2.0`, []string{"1.2", t.TempDir()}},
		{"another platform", `no releases for "plan9/386"`, []string{"1.2.0", t.TempDir(), "--only", "plan9/386"}},
		{"another kind", "want archive, deb, rpm", []string{"1.2.0", t.TempDir(), "--kind", "msi"}},
		{"a folder of somebody", "neither empty nor a release", []string{"1.2.0", precious}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := run(tt.args, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run(%q) = %v, want %s", tt.args, err, tt.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(precious, "thesis.txt")); err != nil {
		t.Error(err)
	}
}

// TestFormula: the formula has the archive's hash, and Ruby accepts it if installed.
func TestFormula(t *testing.T) {
	path := filepath.Join(built(), "vmcp.rb")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := sha256Of(artefactOf(t, ".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`version "` + version + `"`, `sha256 "` + sum + `"`, "on_" + brewOS[here.os] + " do", "/releases/download/v" + version + "/vmcp_"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the formula lacks %s:\n%s", want, text)
		}
	}
	if _, err := exec.LookPath("ruby"); err == nil {
		output(t, "ruby", "-c", path)
	}
}

// TestSBOM: the bill of materials names every module of the program by its package URL, with a licence.
func TestSBOM(t *testing.T) {
	var bill struct {
		BOMFormat  string
		Components []struct {
			Name, Version, Purl string
			Licenses            []struct{ License struct{ ID string } }
		}
	}
	text, err := os.ReadFile(artefactOf(t, ".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, c := range bill.Components {
		named[c.Purl] = true
		if len(c.Licenses) == 0 {
			t.Errorf("%s has no licence", c.Purl)
		}
		for _, l := range c.Licenses {
			if !slices.Contains([]string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC"}, l.License.ID) {
				t.Errorf("%s is under %s: may the program be given away with it?", c.Purl, l.License.ID)
			}
		}
	}
	dir := t.TempDir()
	untar(t, artefactOf(t, ".tar.gz"), dir)
	licenses, err := os.ReadFile(filepath.Join(dir, licensesFile))
	if err != nil {
		t.Fatal(err)
	}
	modules := 0
	for line := range strings.Lines(output(t, "go", "version", "-m", filepath.Join(dir, "vmcp"))) {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" {
			modules++
			if purl := "pkg:golang/" + f[1] + "@" + strings.ReplaceAll(f[2], "+", "%2B"); !named[purl] {
				t.Errorf("the bill of materials lacks %s", purl)
			}
			if !bytes.Contains(licenses, []byte("\n"+f[1]+" "+f[2]+" (")) {
				t.Errorf("%s lacks %s %s", licensesFile, f[1], f[2])
			}
		}
	}
	if modules < 30 || len(named) != modules+1 || !named["pkg:golang/stdlib@"+strings.TrimPrefix(runtime.Version(), "go")] {
		t.Errorf("%d modules, %d components in the bill of materials", modules, len(named))
	}
}

// TestImage: the image has a numeric user and labels.
func TestImage(t *testing.T) {
	files := map[string][]byte{}
	f, err := os.Open(filepath.Join(built(), "vmcp_"+version+"_image_linux_"+here.arch+".tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Size < 1<<20 {
			if files[h.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	found := false
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var config struct {
			OS, Architecture string
			Config           struct {
				User       string
				Entrypoint []string
				Labels     map[string]string
			}
		}
		if json.Unmarshal(files[name], &config) != nil || config.Config.User == "" {
			continue
		}
		found = true
		if c := config.Config; config.Architecture != here.arch || c.User != "65532:65532" || c.Labels["org.opencontainers.image.version"] != version || !slices.Equal(c.Entrypoint, []string{"/vmcp"}) {
			t.Errorf("the image is %+v", config)
		}
	}
	if !found || files["oci-layout"] == nil || files["index.json"] == nil {
		t.Errorf("no layout with a configuration: %v", slices.Sorted(maps.Keys(files)))
	}
}

// untar unpacks a compressed tar file into a folder and returns the names in it.
func untar(t *testing.T, path, dir string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, os.FileMode(h.Mode)); err != nil {
			t.Fatal(err)
		}
	}
}
