package main

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// inPackages are files in both packages, with mode, owner and group.
var inPackages = []string{
	"-rwxr-xr-x root root /usr/bin/vmcp",
	"-rw-r--r-- root root /usr/lib/systemd/system/vmcp.service",
	"-rw-r--r-- root root /usr/lib/sysusers.d/vmcp.conf",
	"-rw-r--r-- root root /usr/lib/tmpfiles.d/vmcp.conf",
	"drwxr-x--- root vmcp /etc/vmcp",
	"-rw-r----- root vmcp /etc/vmcp/vmcp.yaml",
	"-rw-r----- root vmcp /etc/vmcp/vmcp.env",
	"-rw-r--r-- root root /usr/share/man/man1/vmcp.1.gz",
	"-rw-r--r-- root root /usr/share/man/man1/vmcp-serve.1.gz",
	"-rw-r--r-- root root /usr/share/bash-completion/completions/vmcp",
	"-rw-r--r-- root root /usr/share/fish/vendor_completions.d/vmcp.fish",
	"-rw-r--r-- root root /usr/share/doc/vmcp/copyright",
	"-rw-r--r-- root root /usr/share/doc/vmcp/THIRD_PARTY_LICENSES.txt.gz",
	"-rw-r--r-- root root /usr/share/doc/vmcp/CHANGELOG.md.gz",
}

// TestDeb: dpkg reports the expected metadata and files of the package.
func TestDeb(t *testing.T) {
	need(t, "dpkg-deb")
	deb := artefactOf(t, ".deb")
	var files []string
	for line := range strings.Lines(output(t, "dpkg-deb", "--contents", deb)) {
		f := strings.Fields(line)
		files = append(files, f[0]+" "+strings.ReplaceAll(f[1], "/", " ")+" "+strings.TrimSuffix(strings.TrimPrefix(f[5], "."), "/"))
	}
	hasAll(t, files, append(inPackages, "-rw-r--r-- root root /usr/share/zsh/vendor-completions/_vmcp", "-rw-r--r-- root root /usr/share/doc/vmcp/changelog.gz"))
	if got := output(t, "dpkg-deb", "--field", deb, "Package", "Version", "Architecture", "Depends"); got != "Package: vmcp\nVersion: 0.9.1~rc.1\nArchitecture: "+here.arch+"\nDepends: adduser\n" {
		t.Errorf("the package is\n%s", got)
	}
	output(t, "dpkg", "--compare-versions", "0.9.1~rc.1", "lt", "0.9.1")
	conffiles := output(t, "dpkg-deb", "--info", deb, "conffiles")
	if names := strings.Fields(conffiles); !slices.Equal(slices.Sorted(slices.Values(names)), []string{"/etc/vmcp/vmcp.env", "/etc/vmcp/vmcp.yaml"}) {
		t.Errorf("conffiles are %q", names)
	}
}

// TestLintian: lintian finds only what packaging/deb/lintian-overrides explains.
func TestLintian(t *testing.T) {
	need(t, "lintian")
	cmd := exec.Command("lintian", "--allow-root", "--display-info", "--fail-on", "error,warning,info", artefactOf(t, ".deb"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}

// TestRPM: rpm reports the expected metadata and files of the package.
func TestRPM(t *testing.T) {
	need(t, "rpm")
	pkg := artefactOf(t, ".rpm")
	files := strings.Split(output(t, "rpm", "-qp", "--queryformat", "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES}\n]", pkg), "\n")
	hasAll(t, files, append(inPackages, "-rw-r--r-- root root /usr/share/zsh/site-functions/_vmcp", "-rw-r--r-- root root /usr/share/licenses/vmcp/LICENSE"))
	if got := output(t, "rpm", "-qp", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE} %{LICENSE}", pkg); got != "vmcp 0.9.1~rc.1-1 Apache-2.0" {
		t.Errorf("the package is %s", got)
	}
	config := strings.Split(strings.TrimSpace(output(t, "rpm", "-qp", "--queryformat", "[%{FILEFLAGS:fflags} %{FILENAMES}\n]", pkg)), "\n")
	hasAll(t, config, []string{"cn /etc/vmcp/vmcp.env", "cn /etc/vmcp/vmcp.yaml"})
	scripts := output(t, "rpm", "-qp", "--scripts", pkg)
	for _, want := range []string{"preinstall", "postinstall", "preuninstall", "postuninstall", "useradd -r -g vmcp", "try-restart vmcp.service"} {
		if !strings.Contains(scripts, want) {
			t.Errorf("the package's scripts lack %s:\n%s", want, scripts)
		}
	}
}

func hasAll(t *testing.T, have, want []string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(have, w) {
			t.Errorf("the package lacks %q; it has\n%s", w, strings.Join(have, "\n"))
		}
	}
}

// TestScripts: a shell parses the packages' scripts.
func TestScripts(t *testing.T) {
	for _, pattern := range []string{"../deb/*", "../rpm/*", "../build"} {
		scripts, err := filepath.Glob(pattern)
		if err != nil || len(scripts) == 0 {
			t.Fatalf("%s: %d, %v", pattern, len(scripts), err)
		}
		for _, s := range scripts {
			output(t, "sh", "-n", s)
		}
	}
}

// TestUnit: systemd-analyze rates the unit's exposure at 2.5 of 10 or less, and the unit has the expected settings.
func TestUnit(t *testing.T) {
	need(t, "systemd-analyze")
	output(t, "systemd-analyze", "security", "--offline=true", "--threshold=25", "../linux/vmcp.service")
	text, err := os.ReadFile("../linux/vmcp.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := string(text)
	for _, want := range []string{"Type=notify", "ExecReload=/bin/kill -HUP $MAINPID", "WatchdogSec=30", "Restart=on-failure", "StateDirectory=vmcp", "Environment=HOME=/var/lib/vmcp", "KillMode=mixed", "User=vmcp"} {
		if !strings.Contains(unit, "\n"+want+"\n") {
			t.Errorf("the unit lacks %s", want)
		}
	}
	if strings.Contains(unit, "\nMemoryDenyWriteExecute=") {
		t.Error("Node.js does not run where memory cannot be written and executed")
	}
}

// TestUnitFitsProgram: the program sends all notifications that systemd expects by the unit: ready, reloading, watchdog and
// stopping.
func TestUnitFitsProgram(t *testing.T) {
	dir := t.TempDir()
	untar(t, artefactOf(t, ".tar.gz"), dir)
	if err := os.WriteFile(filepath.Join(dir, "vmcp.yaml"), []byte("listen: 127.0.0.1:0\nbackends: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	cmd := exec.Command(filepath.Join(dir, "vmcp"), "serve")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(dir, "notify"), "WATCHDOG_USEC=500000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	await := func(want string) {
		t.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		for buf := make([]byte, 4096); ; {
			n, err := socket.Read(buf)
			if err != nil {
				t.Fatalf("the program does not say %s: %v", want, err)
			}
			if slices.Contains(strings.Split(string(buf[:n]), "\n"), want) {
				return
			}
		}
	}
	await("READY=1")
	await("WATCHDOG=1")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await("RELOADING=1")
	await("READY=1")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await("STOPPING=1")
	ended = true
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestInstall installs the package with dpkg in a separate root, runs the unit's command as the unit's user, calls a
// tool, reloads, upgrades, removes and purges.
func TestInstall(t *testing.T) {
	need(t, "dpkg", "unshare", "setpriv", "systemctl")
	if os.Getuid() != 0 {
		t.Skip("only root can have a root of its own with dpkg in it")
	}
	pkg := t.TempDir()
	deb := artefactOf(t, ".deb")
	dir := t.TempDir()
	untar(t, artefactOf(t, ".tar.gz"), dir)
	t.Setenv("SOURCE_DATE_EPOCH", "1767323045")
	r, err := newRelease(clone(), "0.9.1", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	stage := filepath.Join(dir, "stage")
	if err := r.stage(stage, filepath.Join(dir, "vmcp")); err != nil {
		t.Fatal(err)
	}
	if err := r.linuxPackage("deb")(artefact{platform: here, binary: filepath.Join(dir, "vmcp"), stage: stage, out: pkg}); err != nil {
		t.Fatal(err)
	}
	output(t, "cp", deb, "testdata/install.sh", "../linux/vmcp.service", pkg)
	l, err := net.Listen("tcp", "127.0.0.3:0") // no other process uses this address, so the port stays free until it is used
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	// An overlay over the whole file system, which ends with its last process: nothing outside of it is written.
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-euc", `
		mount -t tmpfs tmpfs /mnt
		mkdir /mnt/upper /mnt/work /mnt/root /mnt/upper/pkg
		cp -r "$1"/. /mnt/upper/pkg
		mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
		mount -t proc proc /mnt/root/proc
		mount --bind /dev /mnt/root/dev
		exec chroot /mnt/root bash -eu /pkg/install.sh "$2"`, "sh", pkg, address)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "\nall well\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDockerfiles: BuildKit's parser accepts them and its lint rules find nothing; user, entrypoint and versions are the
// expected ones. They are not built, since the test has no container engine.
func TestDockerfiles(t *testing.T) {
	for _, name := range []string{"../docker/Dockerfile", "../docker/Dockerfile.node"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			parsed, err := parser.Parse(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range parsed.Warnings {
				t.Errorf("%s: %s", name, w.Short)
			}
			stages, _, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{Warn: func(rule, _, _, msg string, _ []parser.Range) {
				t.Errorf("%s: %s: %s", name, rule, msg)
			}}))
			if err != nil {
				t.Fatal(err)
			}
			checkStages(t, stages)
		})
	}
}

func checkStages(t *testing.T, stages []instructions.Stage) {
	t.Helper()
	for _, s := range stages {
		if _, tag, _ := strings.Cut(s.BaseName, ":"); s.BaseName != "scratch" && (tag == "" || tag == "latest") {
			t.Errorf("FROM %s has no version", s.BaseName)
		}
	}
	var user string
	var entrypoint *instructions.EntrypointCommand
	for _, c := range stages[len(stages)-1].Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.EntrypointCommand:
			entrypoint = c
		case *instructions.CmdCommand:
			if c.PrependShell || slices.ContainsFunc(c.CmdLine, func(a string) bool { return strings.Contains(a, "insecure") }) {
				t.Errorf("CMD %q", c.CmdLine)
			}
		}
	}
	if user != "65532:65532" {
		t.Errorf("USER %q, want numbers, which Kubernetes can see not to be root", user)
	}
	if entrypoint == nil || entrypoint.PrependShell || entrypoint.CmdLine[len(entrypoint.CmdLine)-1] != "/usr/bin/vmcp" {
		t.Errorf("ENTRYPOINT %+v, want the program without a shell", entrypoint)
	}
}

// TestGoreleaser: GoReleaser accepts its configuration.
func TestGoreleaser(t *testing.T) {
	program := os.Getenv("VMCP_GORELEASER")
	if program == "" {
		t.Skip("VMCP_GORELEASER names no goreleaser")
	}
	output(t, program, "check", "../../.goreleaser.yaml")
}
