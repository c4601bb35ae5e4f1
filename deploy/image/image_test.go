package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// build runs the command and returns its output.
func build(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if err := run(args, &stdout, &stderr); err != nil {
		t.Fatalf("image %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return stdout.String()
}

// images reads a layout of one multi-platform image, and returns the image of each platform.
func images(t *testing.T, dir string) (v1.IndexManifest, map[string]v1.Image) {
	t.Helper()
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	outer, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(outer.Manifests) != 1 {
		t.Fatalf("the layout has %d images, want 1", len(outer.Manifests))
	}
	index, err := top.ImageIndex(outer.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	inner, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]v1.Image{}
	for _, m := range inner.Manifests {
		if found[m.Platform.String()], err = index.Image(m.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return *outer, found
}

// file returns the only file of an image of one layer.
func file(t *testing.T, image v1.Image) (*tar.Header, []byte) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v, want one", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files := tar.NewReader(r)
	header, err := files.Next()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(files)
	if err != nil {
		t.Fatal(err)
	}
	if next, err := files.Next(); err != io.EOF {
		t.Errorf("the layer has a second file %v, %v", next, err)
	}
	return header, content
}

// TestImage: builds from these sources and from a copy in another folder are equal byte for byte,
// the image has the metadata that a runtime needs, and its binary runs without other files.
func TestImage(t *testing.T) {
	work := t.TempDir()
	first, second := filepath.Join(work, "first"), filepath.Join(work, "second")
	tarball := filepath.Join(work, "image.tar")
	said := build(t, "--output", first, "--tarball", tarball, "--tag", "registry.test/team/vmcp:1.2.0")
	again := build(t, "--output", second, "--tarball", tarball+"2", "--tag", "registry.test/team/vmcp:1.2.0", "--source", copyOfSources(t))
	if said != again || !strings.HasPrefix(said, "registry.test/team/vmcp:1.2.0@sha256:") {
		t.Errorf("two builds are not the same:\n%s%s", said, again)
	}
	if !bytes.Equal(read(t, tarball), read(t, tarball+"2")) {
		t.Error("the tar files of two builds differ")
	}

	outer, found := images(t, first)
	if name := outer.Manifests[0].Annotations; name["org.opencontainers.image.ref.name"] != "1.2.0" || name["io.containerd.image.name"] != "registry.test/team/vmcp:1.2.0" {
		t.Errorf("the image is named %v", name)
	}
	if len(found) != 2 || found["linux/amd64"] == nil || found["linux/arm64"] == nil {
		t.Fatalf("images for %v, want linux/amd64 and linux/arm64", found)
	}
	for platform, image := range found {
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c := config.Config; c.User != "65532:65532" || len(c.Entrypoint) != 1 || c.Entrypoint[0] != "/vmcp" || c.Cmd != nil || c.Env != nil {
			t.Errorf("%s: user %q, entrypoint %q, command %q, environment %q", platform, c.User, c.Entrypoint, c.Cmd, c.Env)
		}
		if l := config.Config.Labels; l["org.opencontainers.image.version"] != "1.2.0" || l["org.opencontainers.image.licenses"] != "Apache-2.0" || l["org.opencontainers.image.source"] == "" {
			t.Errorf("%s: labels %v", platform, l)
		}
		header, content := file(t, image)
		if header.Name != "vmcp" || header.Mode != 0o755 || header.Uid != 0 || !header.ModTime.Equal(epoch) {
			t.Errorf("%s: the file is %+v", platform, header)
		}
		if platform == "linux/"+runtime.GOARCH {
			runsAlone(t, content)
		}
	}
}

// runsAlone starts the binary in a folder that contains only a kubeconfig besides it, with that folder as the root of the
// file system and as the image's user if the test has the permission.
func runsAlone(t *testing.T, binary []byte) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Log("the binary is for Linux: it is not run here")
		return
	}
	root, err := os.MkdirTemp("", "vmcp-root")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := errors.Join(os.Chmod(root, 0o755), os.WriteFile(filepath.Join(root, "vmcp"), binary, 0o755),
		os.WriteFile(filepath.Join(root, "kubeconfig"), []byte(kubeconfig), 0o644)); err != nil {
		t.Fatal(err)
	}
	out, err := alone(root, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "vmcp 1.2.0 (go") {
		t.Errorf("vmcp version of the image: %v\n%s", err, out)
	}
	servesKubernetes(t, root)
}

// alone makes a command of the program in the folder root. If the test is run as root, it runs in a chroot as the
// image's user.
func alone(root string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(root, "vmcp"), args...)
	cmd.Dir = root
	if os.Getuid() == 0 {
		cmd = exec.Command("/vmcp", args...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	cmd.Env = []string{}
	return cmd
}

// kubeconfig names an address without an API server.
const kubeconfig = `{apiVersion: v1, kind: Config, current-context: x, users: [{name: u, user: {token: t}}],
	clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: x, context: {cluster: c, user: u, namespace: team-a}}]}`

// servesKubernetes checks that without an API server the process is live, not ready, and ends on SIGTERM.
func servesKubernetes(t *testing.T, root string) {
	t.Helper()
	cmd := alone(root, "serve", "--kubernetes", "--kubeconfig", "kubeconfig", "--listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(stderr)
	var all, address string
	for address == "" {
		line, err := said.ReadString('\n')
		all += line
		if err != nil {
			t.Fatalf("vmcp serve --kubernetes of the image ended: %v\n%s", cmd.Wait(), all)
		}
		if _, at, ok := strings.Cut(line, "serving the VirtualMCPServers of namespace team-a at "); ok {
			address = strings.TrimSpace(at)
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s answers %d, want %d", path, resp.StatusCode, want)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(said)
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v\n%s%s", err, all, rest)
	}
}

// TestBinary: a given binary is used for the image of its platform, and the index has no other platform.
func TestBinary(t *testing.T) {
	work := t.TempDir()
	program, output := filepath.Join(work, "vmcp"), filepath.Join(work, "image")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	build(t, "--output", output, "--tag", "localhost/vmcp:1.2.0", "--binary", "linux/arm64="+program)
	_, found := images(t, output)
	if len(found) != 1 || found["linux/arm64"] == nil {
		t.Fatalf("images for %v, want linux/arm64", found)
	}
	if header, content := file(t, found["linux/arm64"]); string(content) != "a program" || header.Mode != 0o755 {
		t.Errorf("the image has %q with mode %o", content, header.Mode)
	}
}

// TestOutputIsNotEmptied: a folder that contains other files than a layout is not changed.
func TestOutputIsNotEmptied(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := clear(dir); err == nil || !strings.Contains(err.Error(), "neither empty nor an OCI image layout") {
		t.Errorf("clear: %v", err)
	}
	if string(read(t, filepath.Join(dir, "thesis.txt"))) != "mine" {
		t.Error("a file was changed")
	}
}

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"no output", "usage: ", nil},
		{"a word more", "usage: ", []string{"--output", "x", "y"}},
		{"a binary without its platform", "--binary: no image for \"plan9/arm\"", []string{"--output", "x", "--binary", "plan9/arm=vmcp"}},
		{"a binary without a file", "want OS/ARCH=FILE", []string{"--output", "x", "--binary", "vmcp"}},
		{"a tag that is none", "--tag: ", []string{"--output", "x", "--tag", "Not A Tag"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := run(tt.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run(%q) = %v, want %s", tt.args, err, tt.want)
			}
		})
	}
}

// copyOfSources copies the files that go build reads to a folder of another name.
func copyOfSources(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "elsewhere")
	for _, part := range listed(t) {
		if !strings.HasPrefix(part, "test/") && !strings.HasPrefix(part, "docs/") {
			copyFile(t, filepath.Join("../..", part), filepath.Join(to, part))
		}
	}
	return to
}

// listed returns the project's files that are tracked by git, or would be after git add.
func listed(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	return strings.Fields(string(out))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return // removed, but still in git's index
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestDockerfile: the image for backends over standard input and output runs the program of this
// module's image, as the same user.
func TestDockerfile(t *testing.T) {
	last := map[string]string{}
	for line := range strings.SplitSeq(string(read(t, "stdio/Dockerfile")), "\n") {
		if instruction, rest, ok := strings.Cut(line, " "); ok {
			last[instruction] = rest
		}
	}
	for instruction, want := range map[string]string{
		"USER":       user,
		"COPY":       "--from=vmcp /vmcp /usr/local/bin/vmcp",
		"ENTRYPOINT": `["/usr/local/bin/vmcp"]`,
	} {
		if last[instruction] != want {
			t.Errorf("the last %s is %q, want %q", instruction, last[instruction], want)
		}
	}
}
