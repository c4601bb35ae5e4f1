package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// TestPages does what pages show: files with
// a title are written, commands are run, and their output is compared. The quick form does so for
// the first two pages; what the others show has scripts in testdata, too.
func TestPages(t *testing.T) {
	for _, name := range []string{"README.md", "docs/guide.md", "docs/kubernetes.md", "docs/migrate.md", "docs/pins.md", "docs/recording.md", "docs/scripting.md", "docs/testing.md"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			if name != "README.md" {
				testmode.NeedThorough(t)
			}
			text, err := os.ReadFile(filepath.Join("..", "..", name))
			if err != nil {
				t.Fatal(err)
			}
			newReader(t).follow(name, string(text))
		})
	}
}

// reader does what a page says.
type reader struct {
	*testing.T
	home, dir, port string
	server          *exec.Cmd
	log             string // the file that the server writes to
	at              string // page and line
}

func newReader(t *testing.T) *reader {
	port, err := rig.Port()
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{T: t, home: t.TempDir(), dir: t.TempDir(), port: fmt.Sprint(port)}
	t.Cleanup(r.stop)
	return r
}

// shell runs a command line of a page.
func (r *reader) shell(ctx context.Context, line string) *exec.Cmd {
	c := exec.CommandContext(ctx, "sh", "-c", line)
	c.Dir = r.dir
	c.Env = append(os.Environ(), shortLived, "HOME="+r.home, "XDG_CACHE_HOME="+filepath.Join(r.home, ".cache"))
	return c
}

// block matches a fenced block of a page.
var block = regexp.MustCompile("(?ms)^```(\\w+)(?: title=(\\S+))?\n(.*?)^```$")

// elsewhere matches blocks that another test checks: migrate.TestGuide.
var elsewhere = regexp.MustCompile("(?ms)^```python (?:exact|clean)\n.*?^```$")

func (r *reader) follow(page, text string) {
	if rest := block.ReplaceAllString(elsewhere.ReplaceAllString(text, ""), ""); strings.Contains(rest, "\n```") {
		r.Errorf("%s has a block that does not say what it is: %.200s", page, rest[strings.Index(rest, "\n```"):])
	}
	for _, m := range block.FindAllStringSubmatchIndex(text, -1) {
		part := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return text[m[2*i]:m[2*i+1]]
		}
		r.at = fmt.Sprintf("%s:%d", page, 1+strings.Count(text[:m[0]], "\n"))
		body := strings.ReplaceAll(part(3), "127.0.0.1:4483", "127.0.0.1:"+r.port)
		switch lang, title := part(1), part(2); {
		case title != "":
			r.write(title, body)
		case page == "docs/migrate.md" && lang == "yaml": // before and after: see migrate.TestGuide
		case lang == "console":
			r.console(body)
		case lang != "text" && lang != "json":
			r.Errorf("%s: a %s block without a title: nobody runs it", r.at, lang)
		}
	}
}

// write writes a file; if a server watches it, write returns when that has applied it.
func (r *reader) write(name, text string) {
	if name == defaultFile {
		text = "listen: 127.0.0.1:" + r.port + "\n" + text
	}
	const applied = "configuration applied"
	before := strings.Count(r.logged(), applied)
	path := filepath.Join(r.dir, name)
	r.must(os.MkdirAll(filepath.Dir(path), 0o755))
	r.must(os.WriteFile(path, []byte(text), 0o644))
	if r.watched(name) {
		r.wait("the server has applied "+name, func() bool { return strings.Count(r.logged(), applied) > before })
		r.ready()
	}
}

// watched reports whether a running server watches the file.
func (r *reader) watched(name string) bool {
	if r.server == nil || strings.HasSuffix(name, "_test.star") || strings.Contains(r.logged(), "serving the built-in demo") {
		return false
	}
	served, err := os.ReadFile(filepath.Join(r.dir, defaultFile))
	return err == nil && (name == defaultFile || strings.Contains(string(served), "scripts: ["+filepath.Dir(name)+"]"))
}

// console runs each line after a dollar and compares its output with the lines below it.
func (r *reader) console(text string) {
	for step := range strings.SplitSeq("\n"+text, "\n$ ") {
		command, want, _ := strings.Cut(step, "\n")
		if command != "" {
			r.run(command, want)
		}
	}
}

// Commands of pages that are not run: this test is part of the first two, and
// has the results of the others without them.
var notRun = []string{
	"go test ./...", "bash .ci/run",
	"go install ./cmd/vmcp ./examples/backends/workspace/cmd/workspace ./examples/backends/yamlfile/cmd/yamlfile",
	"kubectl get virtualmcpcompositetooldefinition deploy -o yaml | vmcp migrate-composite -f -",
}

func (r *reader) run(command, want string) {
	if slices.Contains(notRun, command) {
		return
	}
	if folder, ok := strings.CutPrefix(command, "cd ~/"); ok {
		r.dir = filepath.Join(r.home, folder)
		return
	}
	command = strings.ReplaceAll(command, "go run ./cmd/vmcp", "vmcp")
	if strings.HasPrefix(command, "vmcp serve") && !strings.Contains(command, "0.0.0.0") {
		r.serve(command)
		r.wait("the server says\n"+want, func() bool { return saysInAnyOrder(r.logged(), want) })
		return
	}
	if _, err := os.Stat(filepath.Join(r.dir, defaultFile)); err != nil && strings.HasPrefix(command, "vmcp call") {
		command += " --url http://127.0.0.1:" + r.port
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	got, err := r.shell(ctx, command).CombinedOutput()
	if !says(string(got), want) || want == "" && err != nil {
		r.Errorf("%s: %s (%v)\n got %s\nwant %s", r.at, command, err, got, want)
	}
}

// serve starts a server, and stops the one before.
func (r *reader) serve(command string) {
	r.stop()
	if _, err := os.Stat(filepath.Join(r.dir, defaultFile)); err != nil {
		command += " --listen 127.0.0.1:" + r.port
	}
	r.log = filepath.Join(r.TempDir(), "log")
	out, err := os.Create(r.log)
	r.must(err)
	defer out.Close()
	r.server = r.shell(context.Background(), "exec "+command)
	r.server.Stderr = out
	r.must(r.server.Start())
	r.ready()
}

func (r *reader) ready() {
	r.wait("every backend is ready", func() bool {
		page, err := fetch("http://127.0.0.1:" + r.port + "/readyz")
		return err == nil && strings.Contains(page, `"ready": true`)
	})
}

func (r *reader) stop() {
	if r.server == nil {
		return
	}
	_ = r.server.Process.Signal(os.Interrupt)
	if err := r.server.Wait(); err != nil {
		r.Errorf("the server ended with %v:\n%s", err, r.logged())
	}
	r.server = nil
	for line := range strings.Lines(r.logged()) {
		if strings.Contains(line, ": warning: ") {
			r.Errorf("%s: the server alarms over a script of this page: %s", r.at, line)
		}
	}
}

func (r *reader) logged() string {
	text, _ := os.ReadFile(r.log) // it may not exist yet
	return string(text)
}

// wait polls until ok: other processes are involved.
func (r *reader) wait(what string, ok func() bool) {
	r.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if <-tick.C; time.Now().After(deadline) {
			r.Fatalf("%s: it did not come true that %s; its log:\n%s", r.at, what, r.logged())
		}
	}
}

func (r *reader) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("%s: %v", r.at, err)
	}
}

// says reports whether got has the lines of want in their order; ... stands for any text.
func says(got, want string) bool {
	pattern := bytes.NewBufferString("(?s)")
	for line := range strings.Lines(want) {
		if line = strings.TrimSuffix(line, "\n"); strings.TrimSpace(line) == "..." || line == "" {
			continue
		}
		fmt.Fprintf(pattern, "%s[^\n]*\n.*?", strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `[^\n]*`))
	}
	return regexp.MustCompile(pattern.String()).MatchString(got)
}

// saysInAnyOrder is says for the lines of a server, whose backends become ready in any order.
func saysInAnyOrder(got, want string) bool {
	for line := range strings.Lines(want) {
		if !says(got, line) {
			return false
		}
	}
	return true
}

// The README's first minute has exactly two commands.
func TestFirstMinute(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	first := block.FindStringSubmatch(string(text))
	if want := "$ go run ./cmd/vmcp serve\n$ go test ./...\n"; first == nil || first[3] != want {
		t.Errorf("the first commands of the README are\n%q\nwant\n%q", first, want)
	}
}

var (
	link     = regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`)
	codePath = regexp.MustCompile("`((?:config|script|migrate|internal|backends|builtins|proxy|cmd|examples|test|docs|bench)/[\\w./-]*\\w)`")
)

// TestWalkFromAClient runs the commands of the guide from a client with servers to one endpoint, and back, as they
// are on the page.
func TestWalkFromAClient(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "The following steps move a client")
	if !found {
		t.Fatal("docs/guide.md has no section of the steps that move a client to one endpoint, and back")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	r := newReader(t)
	r.at = "the walk in docs/guide.md"
	theirs := block.FindStringSubmatch(section)[3]
	file := filepath.Join(r.home, ".cursor", "mcp.json")
	r.must(os.MkdirAll(filepath.Dir(file), 0o700))
	r.must(os.WriteFile(file, []byte(theirs), 0o600))
	read := func(name string) string {
		text, err := os.ReadFile(name)
		r.must(err)
		return string(text)
	}
	mine := filepath.Join(r.dir, defaultFile)
	var done []string
	for _, m := range regexp.MustCompile("(?m)^[0-9]\\. (.*?`)(?:: |, if )").FindAllStringSubmatch(section, -1) {
		for _, command := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(m[1], -1) {
			done = append(done, command[1])
		}
	}
	want := map[string]string{
		"vmcp tools": "notes_read_file ...\nvalues_get ...\n",
		"vmcp call notes_list_files --args '{\"path\":\".cursor\"}'": "...mcp.json...\n",
		"vmcp connect cursor --replace":                              "cursor: ...mcpServers.vmcp added\ncursor: in its place: notes, values\n",
		"vmcp connect cursor --undo":                                 "cursor: ...the file is as it was\n",
	}
	for _, command := range done {
		r.run(command, want[command])
		switch {
		case strings.HasPrefix(command, "vmcp import"):
			if text := read(mine); strings.Contains(text, "m0re-4711") || !strings.Contains(read(filepath.Join(r.dir, "vmcp.env")), "n0tes-and-m0re-4711") {
				t.Errorf("the secret is not beside the configuration: %s", text)
			}
			r.must(os.WriteFile(mine, []byte("listen: 127.0.0.1:"+r.port+"\n"+read(mine)), 0o600))
		case strings.HasSuffix(command, "--replace"):
			if text := read(file); !strings.Contains(text, "http://127.0.0.1:"+r.port+"/mcp") || strings.Contains(text, "yamlfile") || !strings.Contains(text, "// started by Cursor") {
				t.Errorf("the client's file is\n%s", text)
			}
		}
		delete(want, command)
	}
	if text := read(file); text != theirs || len(done) != 6 || len(want) != 0 {
		t.Errorf("after %q the file is\n%s\nwant\n%s; not done: %v", done, text, theirs, want)
	}
}

// published matches a command that installs, or runs, vmcp as others have published it.
var published = regexp.MustCompile(`npx (-y )?vmcp|npm install -g vmcp|/releases/download/|brew install|(docker|podman) pull|(apt|apt-get|dnf|yum) install vmcp`)

// TestNoPageNamesWhatIsNotPublished: as long as there is no release, a page with a command that installs one says so before.
func TestNoPageNamesWhatIsNotPublished(t *testing.T) {
	seen := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md", "deploy/*.md", "deploy/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			at := published.FindIndex(text)
			if at == nil {
				continue
			}
			seen++
			if before, _, _ := strings.Cut(string(text[:at[0]]), "```"); !strings.Contains(before, "There is no release yet") {
				t.Errorf("%s: %q is for a release, and the page does not begin with: There is no release yet", page, text[at[0]:at[1]])
			}
		}
	}
	if seen == 0 {
		t.Error("no page has a command of a release: the pattern is wrong")
	}
}

// TestPathsInPages finds links and file names in pages that do not exist.
func TestPathsInPages(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) < 3 {
		t.Fatalf("pages: %v, %v", pages, err)
	}
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			mustExist(t, page, filepath.Join(filepath.Dir(page), m[1]))
		}
		for _, m := range codePath.FindAllStringSubmatch(string(text), -1) {
			folder, _, _ := strings.Cut(m[1], ".Test") // test/access checks that the test exists
			folder, _, _ = strings.Cut(folder, ".Fuzz")
			mustExist(t, page, filepath.Join(root, folder))
		}
	}
}

func mustExist(t *testing.T, page, name string) {
	t.Helper()
	if _, err := os.Stat(name); err != nil {
		t.Errorf("%s names %s: there is no such file", page, name)
	}
}
