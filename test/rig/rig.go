// Package rig starts the real peers that the suites under test/ talk to: the vmcp
// binary, the SDK's fixture server and pinned npm packages.
//
// Downloads are installed in a folder of the user's cache when they are missing, so that a second
// run needs no network.
package rig

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// FixtureServer and fixtureClient are the versions of the SDK's conformance server and client.
const (
	FixtureServer = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server@v1.8.0"
	fixtureClient = "github.com/modelcontextprotocol/go-sdk/conformance/everything-client@v1.8.0"
)

//go:embed package.json package-lock.json
var manifest embed.FS

// Packages is a folder with the npm packages of package-lock.json installed.
type Packages struct{ dir string }

// Install returns the npm packages of this folder's lock file, installed.
func Install(ctx context.Context) (*Packages, error) { return InstallFrom(ctx, manifest) }

// InstallFrom returns the npm packages of a package-lock.json, installed: they are
// downloaded the first time. The folder's name is the digest of the lock file, so that a
// changed lock file is a new folder.
func InstallFrom(ctx context.Context, manifest fs.FS) (*Packages, error) {
	lock, err := fs.ReadFile(manifest, "package-lock.json")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(lock)
	dir, err := cached("npm-"+hex.EncodeToString(sum[:6]), func(dir string) error {
		return npmInstall(ctx, manifest, dir)
	})
	return &Packages{dir}, err
}

func npmInstall(ctx context.Context, manifest fs.FS, dir string) error {
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := fs.ReadFile(manifest, name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return run(ctx, dir, nil, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
}

// Node is the path of the Node binary among the packages: the conformance suite and some
// clients need a newer one than the machine may have.
func (p *Packages) Node() string {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	return filepath.Join(p.dir, "node_modules", "node-"+runtime.GOOS+"-"+arch, "bin", "node")
}

// Path is the path of a file of an installed package.
func (p *Packages) Path(name string) string {
	return filepath.Join(p.dir, "node_modules", filepath.FromSlash(name))
}

// Program copies a program of a suite, npm/NAME in files, into a folder with the packages of the suite's npm/package-lock.json.
// The command runs it there, with the Node binary of p.
func Program(ctx context.Context, dir string, files fs.FS, name string) (*exec.Cmd, error) {
	own, err := fs.Sub(files, "npm")
	if err != nil {
		return nil, err
	}
	peers, err := Install(ctx)
	if err != nil {
		return nil, err
	}
	packages, err := InstallFrom(ctx, own)
	if err != nil {
		return nil, err
	}
	program, err := fs.ReadFile(own, name)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, name), program, 0o644); err != nil {
		return nil, err
	}
	if err := os.Symlink(packages.Path(""), filepath.Join(dir, "node_modules")); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, peers.Node(), name)
	cmd.Dir = dir
	return cmd, nil
}

// Dir is the folder with node_modules: scripts that import packages run in it.
func (p *Packages) Dir() string { return p.dir }

// Fixture returns the path of the SDK's conformance server, building it the first time.
func Fixture(ctx context.Context) (string, error) { return installed(ctx, FixtureServer) }

// FixtureClient returns the path of the SDK's conformance client, building it the first time.
func FixtureClient(ctx context.Context) (string, error) { return installed(ctx, fixtureClient) }

// installed returns the path of a Go program, installed.
func installed(ctx context.Context, program string) (string, error) {
	version := filepath.Base(program)
	dir, err := cached(version, func(dir string) error {
		return run(ctx, dir, []string{"GOBIN=" + dir, "GOFLAGS="}, "go", "install", program)
	})
	name, _, _ := strings.Cut(version, "@")
	return filepath.Join(dir, name), err
}

// cached returns a folder of the cache, which fill fills when it does not exist yet.
// It is filled under another name and renamed, so that an interrupted or a
// concurrent run never leaves a half-filled folder behind.
func cached(name string, fill func(dir string) error) (string, error) {
	root, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	root = filepath.Join(root, "vmcp-ci")
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(root, name+".tmp*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := fill(tmp); err != nil {
		return "", fmt.Errorf("install %s: %w", name, err)
	}
	err = os.Rename(tmp, dir)
	if errors.Is(err, fs.ErrExist) { // a concurrent run has created it
		err = nil
	}
	return dir, err
}

// run runs a command to its end; its output becomes part of the error.
func run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}
