package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompletions: three shells complete the values of a flag with the files of the archive. PowerShell is not tested.
func TestCompletions(t *testing.T) {
	dir := t.TempDir()
	untar(t, artefactOf(t, ".tar.gz"), dir)
	for _, tt := range []struct{ shell, args, script, want string }{
		{"bash", "--norc -c", `
			source /usr/share/bash-completion/bash_completion
			source completions/vmcp.bash
			COMP_WORDS=(vmcp tools --output j); COMP_CWORD=3; COMP_LINE="vmcp tools --output j"; COMP_POINT=${#COMP_LINE}
			compopt() { :; } # is for functions that the shell itself calls
			__start_vmcp
			echo "completed: ${COMPREPLY[*]}"`, "completed: json"},
		{"fish", "--no-config -c", `
			source completions/vmcp.fish
			echo completed: (complete -C "vmcp tools --output j")`, "completed: json"},
		{"zsh", "-f -c", `
			zmodload zsh/zpty
			zpty -b shell zsh -f -i
			zpty -w shell 'PS1=; fpath=($PWD/completions $fpath); autoload -U compinit; compinit -u -D; echo rea''dy'
			zpty -r shell out '*ready*'
			zpty -w -n shell $'vmcp tools --output j\t\x01echo completed: \n'
			zpty -r shell out $'*\ncompleted: vmcp*\n'
			print -r -- "$out"
			zpty -d shell`, "completed: vmcp tools --output json"},
	} {
		t.Run(tt.shell, func(t *testing.T) {
			need(t, tt.shell)
			cmd := exec.Command(tt.shell, append(strings.Fields(tt.args), tt.script)...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "TERM=dumb")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("%v, want %q:\n%s", err, tt.want, out)
			}
		})
	}
}

// TestNPM: the wrapper and this platform's package are installed without a network, and the wrapper passes standard input,
// standard output, signals and the exit code through.
func TestNPM(t *testing.T) {
	need(t, "node", "npm")
	dir := t.TempDir()
	packages := filepath.Join(built(), "npm")
	shell := func(script string) string {
		t.Helper()
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "npm_config_cache="+filepath.Join(dir, "cache"), "npm_config_offline=true",
			"npm_config_update_notifier=false", "npm_config_loglevel=error", "PACKAGES="+packages)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	shell(`npm install --no-audit --no-fund "$PACKAGES"/*.tgz && printf 'listen: 127.0.0.1:0\nbackends: []\n' > vmcp.yaml`)
	if got := shell("npx vmcp version"); !strings.HasPrefix(got, "vmcp "+version+" (") {
		t.Errorf("npx vmcp version prints %q", got)
	}
	if got := shell("npx vmcp serve --stdio 2>/dev/null </dev/null | wc -c"); strings.TrimSpace(got) != "0" {
		t.Errorf("npx vmcp serve --stdio writes %s bytes to standard output before it is asked anything", got)
	}
	if got := shell("npx vmcp frobnicate 2>&1 >/dev/null && code=0 || code=$?; echo $code"); !strings.HasSuffix(got, "\n2\n") {
		t.Errorf("a wrong command ends with %q, want 2", got)
	}
	const serve = `
		# started CHILD: waits until the program serves.
		started() { until grep -q serving err; do kill -0 $1; sleep 0.1; done; }
		gone() { while pgrep -f "^$PWD/node_modules/@vmcp-dev/[^ ]+/bin/vmcp serve" >left; do sleep 0.1; done; }
		: >err
	`
	if got := shell(serve + `node_modules/.bin/vmcp serve 2>err & started $!; kill -HUP $!; kill -TERM $!; wait $! && code=0 || code=$?; gone; echo $code`); got != "0\n" {
		t.Errorf("after a hangup and SIGTERM it ends with %q, want 0", got)
	}
	if got := shell(serve + `node_modules/.bin/vmcp serve 2>err & started $!; kill -KILL $(pgrep -P $!); wait $! && code=0 || code=$?; echo $code`); !strings.HasSuffix(got, "\n137\n") {
		t.Errorf("when the program is killed it ends with %q, want 137", got)
	}
	shell(serve + `npx vmcp serve 2>err & started $!; kill -TERM $!; wait $! || true; gone`)
}

// TestNPMWithoutProgram: a missing package of the platform is reported, with the exit code of a problem.
func TestNPMWithoutProgram(t *testing.T) {
	need(t, "node")
	dir := t.TempDir()
	untar(t, filepath.Join(built(), "npm", "vmcp-"+version+".tgz"), dir)
	cmd := exec.Command("node", filepath.Join(dir, "package", "bin", "vmcp.js"), "version")
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "is not installed; it is an optional dependency") {
		t.Errorf("%v\n%s", err, out)
	}
}
