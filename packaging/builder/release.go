package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
)

// project is the path of the program's module, releasePackage that of the package whose variables the linker sets.
const (
	project        = "github.com/vmcp-dev/vmcp"
	releasePackage = project + "/cmd/vmcp/internal/cli"
)

// platform is a platform of releases, with GOOS and GOARCH.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// program is the file name of the program.
func (p platform) program() string {
	if p.os == "windows" {
		return "vmcp.exe"
	}
	return "vmcp"
}

var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

func platformOf(s string) (platform, error) {
	for _, p := range platforms {
		if p.String() == s {
			return p, nil
		}
	}
	return platform{}, fmt.Errorf("no releases for %q, want one of %v", s, platforms)
}

// release is the data common to all artefacts.
type release struct {
	source  string // the project's folder, absolute
	version string // without a v
	date    time.Time
	commit  string // empty if the sources are not in a repository
	dirty   bool
	stderr  io.Writer
}

// newRelease makes a release. Its time is SOURCE_DATE_EPOCH, else that of the commit.
func newRelease(source, version string, stderr io.Writer) (*release, error) {
	source, err := filepath.Abs(source)
	if err != nil {
		return nil, err
	}
	v, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v"))
	if err != nil {
		return nil, fmt.Errorf("version %q: want one such as 1.2.0 or 1.2.0-rc.1: %v", version, err)
	}
	r := &release{source: source, version: v.String(), stderr: stderr}
	head, err := r.output("git", "log", "-1", "--format=%H %ct")
	commit, at, _ := strings.Cut(head, " ")
	r.commit = commit
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		at = epoch
	} else if err != nil {
		return nil, fmt.Errorf("the sources are no git repository: set SOURCE_DATE_EPOCH to the time of the release, in seconds: %v", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(at), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH: %v", err)
	}
	r.date = time.Unix(seconds, 0).UTC()
	if changed, err := r.output("git", "status", "--porcelain"); err == nil && changed != "" {
		r.dirty = true
		fmt.Fprintf(stderr, "build: the sources differ from their commit: vmcp version will say so\n")
	}
	// nfpm reads the default of times from this variable.
	return r, os.Setenv("SOURCE_DATE_EPOCH", strconv.FormatInt(seconds, 10))
}

// output runs a command in the sources and returns what it prints.
func (r *release) output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = r.source
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %v: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}

// build makes the artefacts of the given kinds and platforms in the folder out, which it empties first.
func (r *release) build(out string, only []platform, wanted []string) error {
	work, err := os.MkdirTemp("", "vmcp-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := clear(out); err != nil {
		return err
	}
	binaries := map[platform]string{}
	for _, p := range only {
		binaries[p] = filepath.Join(work, p.os+"_"+p.arch, p.program())
		if err := r.compile(p, binaries[p]); err != nil {
			return err
		}
	}
	s := filepath.Join(work, "stage")
	if err := r.stage(s, binaries[host()]); err != nil {
		return err
	}
	makers := map[string]func(artefact) error{"archive": r.archive, "deb": r.linuxPackage("deb"), "rpm": r.linuxPackage("rpm"), "image": r.image, "npm": r.npmPlatform, "sbom": r.sbom}
	for _, p := range only {
		for _, kind := range kinds {
			make := makers[kind]
			if make == nil || !slices.Contains(wanted, kind) {
				continue
			}
			if err := make(artefact{platform: p, binary: binaries[p], stage: s, out: out}); err != nil {
				return fmt.Errorf("%s for %s: %w", kind, p, err)
			}
		}
	}
	if slices.Contains(wanted, "npm") {
		if err := r.npmWrapper(out); err != nil {
			return err
		}
	}
	if slices.Contains(wanted, "formula") {
		if err := r.writeFormula(out); err != nil {
			return err
		}
	}
	return checksums(out)
}

// artefact is the input of one artefact.
type artefact struct {
	platform
	binary string
	stage  string // see release.stage
	out    string
}

// name is the path of an artefact: vmcp_1.2.0_linux_amd64 and an ending.
func (r *release) name(a artefact, ending string) string {
	return filepath.Join(a.out, "vmcp_"+r.version+"_"+a.os+"_"+a.arch+ending)
}

// compile writes the program for a platform.
func (r *release) compile(p platform, to string) error {
	fmt.Fprintf(r.stderr, "build: %s\n", p)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs="+strconv.FormatBool(r.commit != ""), "-ldflags="+r.linkerFlags(), "-o", to, "./cmd/vmcp")
	cmd.Dir = r.source
	cmd.Stderr = r.stderr
	// The caller's build tags, processor variants and flags must not affect a release.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch,
		"GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build for %s: %v", p, err)
	}
	return nil
}

// linkerFlags omits debug symbols and sets the commit data, which the toolchain does not record in a git worktree.
func (r *release) linkerFlags() string {
	flags := "-s -w"
	set := func(name, value string) { flags += " -X " + releasePackage + "." + name + "=" + value }
	set("tag", r.version)
	if r.commit != "" {
		set("commit", r.commit)
		set("date", r.date.Format(time.RFC3339))
	}
	if r.dirty {
		set("dirty", "true")
	}
	return flags
}

// host is the platform of this process.
func host() platform { return platform{runtime.GOOS, runtime.GOARCH} }

// clear creates a folder, or empties that of an earlier build, which has a checksums.txt. It refuses any other folder that
// is not empty.
func clear(out string) error {
	entries, err := os.ReadDir(out)
	if os.IsNotExist(err) || err == nil && len(entries) == 0 {
		return os.MkdirAll(out, 0o755)
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, "checksums.txt")); err != nil {
		return fmt.Errorf("%s is neither empty nor a release with its checksums.txt: name another folder", out)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(out, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// checksums writes checksums.txt, which sha256sum -c reads.
func checksums(out string) error {
	var list bytes.Buffer
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "checksums.txt" {
			return err
		}
		within, err := filepath.Rel(out, path)
		if err != nil {
			return err
		}
		sum, err := sha256Of(path)
		fmt.Fprintf(&list, "%s  %s\n", sum, filepath.ToSlash(within))
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "checksums.txt"), list.Bytes(), 0o644)
}

// sha256Of is the hash of a file, in hexadecimal.
func sha256Of(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
