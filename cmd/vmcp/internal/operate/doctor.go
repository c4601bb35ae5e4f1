package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/setup"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// Statuses of a check.
const (
	ok   = "ok"
	warn = "warn"
	fail = "fail"
)

// check is the result of one check.
type check struct {
	Name    string `json:"name"`
	Status  string `json:"status"` // ok, warn or fail
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what to do; "" when the check passed
}

// examined is the JSON of the command.
type examined struct {
	Checks []check `json:"checks"`
}

// doctor checks everything that an endpoint needs to work.
type doctor struct {
	env     Env
	flags   flags
	offline bool
	secrets secret.Redactor
	cfg     *config.Config
	running *status.Status // nil: the endpoint does not answer
	checks  []check
}

func (e Env) doctor() *cobra.Command {
	d := &doctor{env: e}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "diagnose problems of an endpoint, with hints for their solution",
		Long: `Doctor checks a configuration and what it needs on this machine: whether it can be read and its
scripts compile, whether programs are found and variables set, whether URLs respond, whether the port is
free or used by vmcp, and in which version, whether clients have another address, and whether the list of
tools is longer than clients accept. The exit code is 1 if a check fails, not for warnings. With
--offline nothing is sent to other machines.` + cli.Of(examined{}),
		Example: "  vmcp doctor\n  vmcp doctor --config other.yaml --offline --output json",
		Args:    cobra.NoArgs,
	}
	d.flags.register(c, e)
	d.flags.elsewhere = nil // the question is about the endpoint of this configuration, not the user's
	c.Flags().BoolVar(&d.offline, "offline", false, "do not connect to URLs of backends")
	output := e.Output(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		d.examine(c.Context())
		for i := range d.checks {
			d.checks[i].Message = d.secrets.Text(d.checks[i].Message)
		}
		err := d.print(*output == "json")
		for _, one := range d.checks {
			if err == nil && one.Status == fail {
				err = e.Found
			}
		}
		return err
	}
	return c
}

// add adds the result of a check.
func (d *doctor) add(name, state, hint, format string, args ...any) {
	d.checks = append(d.checks, check{Name: name, Status: state, Hint: hint, Message: fmt.Sprintf(format, args...)})
}

func (d *doctor) print(asJSON bool) error {
	if asJSON {
		return d.env.JSON(examined{d.checks})
	}
	for _, one := range d.checks {
		text := fmt.Sprintf("%-4s  %-12s %s\n", one.Status, one.Name, d.env.Line(one.Message))
		if one.Hint != "" {
			text += fmt.Sprintf("      %-12s hint: %s\n", "", d.env.Line(one.Hint))
		}
		if _, err := fmt.Fprint(d.env.Out, text); err != nil {
			return err
		}
	}
	return nil
}

// examine runs all checks.
func (d *doctor) examine(ctx context.Context) {
	d.configuration()
	if d.cfg != nil {
		d.commands(ctx)
		if !d.offline {
			d.remotes(ctx)
		}
		d.memory()
	}
	d.endpoint(ctx)
	d.clients()
	d.lists(ctx)
	d.descriptors()
}

// configuration checks the file. Missing variables and files are reported as checks of their own.
func (d *doctor) configuration() {
	data, err := config.ReadFile(d.flags.config)
	if errors.Is(err, fs.ErrNotExist) {
		d.add("config", warn, `write one with "vmcp init", or name one with --config`, "there is no %s; vmcp serve runs its demo", d.flags.config)
		return
	}
	var problems diag.Problems
	if err != nil && !errors.As(err, &problems) {
		d.add("config", fail, "", "%v", err)
		return
	}
	if err == nil {
		if d.cfg, problems = config.Read(d.flags.config, data); d.cfg != nil {
			d.secrets.Use(d.cfg.Secrets())
			problems = append(problems, proxy.Check(d.cfg)...)
		}
	}
	found := map[string]int{}
	for _, p := range problems.Sorted() {
		name, hint := kindOf(p)
		if hint == "" {
			hint = p.Hint
		}
		found[name]++
		state := fail
		if p.Severity == diag.Warning {
			state = warn
		}
		d.add(name, state, hint, "%s", p.Error())
	}
	if d.cfg == nil {
		return
	}
	if found["config"] == 0 {
		d.add("config", ok, "", "%s: %s, %s of variables set", d.flags.config, count(len(d.cfg.Backends), "backend"), count(len(d.cfg.Variables()), "value"))
	}
	for _, name := range []string{"variables", "files"} {
		if found[name] == 0 {
			d.add(name, ok, "", "all that the configuration names are there")
		}
	}
}

// kindOf returns the check that a problem belongs to, and its hint.
func kindOf(p diag.Problem) (name, hint string) {
	switch {
	case strings.Contains(p.Message, "the environment has no variable"):
		return "variables", "set it before vmcp starts, or put NAME=value into vmcp.env beside the configuration"
	case strings.HasPrefix(p.Message, config.EmptyVariable):
		return "variables", "give it a value, in the environment or in vmcp.env beside the configuration"
	case strings.HasPrefix(p.Message, "not YAML"):
		return "config", "texts with : or # want quotes, and lists and mappings the same number of spaces in each line"
	case strings.Contains(p.Message, "keeps state for its client"):
		return "sessions", "set sessions: exclusive for this backend; where nobody logs in, also incomingAuth: {type: local}, without which clients of revision 2026-07-28 are refused"
	case strings.Contains(p.Message, "no such folder"), strings.Contains(p.Message, "no such file"):
		return "files", "paths are relative to the folder of the configuration"
	}
	return "config", ""
}

// launchers are programs that start others; their version is shown.
var launchers = map[string]bool{"node": true, "npx": true, "npm": true, "uvx": true, "uv": true, "python": true, "python3": true, "docker": true, "deno": true, "bun": true, "bunx": true}

// commands checks that the program of each backend exists.
func (d *doctor) commands(ctx context.Context) {
	versions := map[string]string{}
	for i := range d.cfg.Backends {
		b := &d.cfg.Backends[i]
		if b.Command == "" || b.Disabled || b.Unusable != "" {
			continue
		}
		path, err := findProgram(b)
		if err != nil {
			d.add("command", fail, installHint(b.Command), "backend %s: %s is not on the PATH", b.Name, b.Command)
			continue
		}
		version, known := versions[path]
		if launchers[b.Command] && !known {
			version = versionOf(ctx, path)
			versions[path] = version
		}
		d.add("command", ok, "", "backend %s: %s%s", b.Name, path, version)
	}
}

// findProgram finds the program of a backend on the PATH that it will be started with.
func findProgram(b *config.Backend) (string, error) {
	if path, own := b.Env["PATH"]; own && !strings.ContainsAny(b.Command, `/\`) {
		return findIn(path, b.Command)
	}
	return exec.LookPath(b.Command)
}

// installHint says how to install a program.
func installHint(command string) string {
	switch command {
	case "npx", "npm", "node":
		return "install Node.js (https://nodejs.org), or write the absolute path of " + command
	case "uvx", "uv":
		return "install uv (https://docs.astral.sh/uv), or write the absolute path of " + command
	}
	return "install it, or write its absolute path; a service has another PATH than a shell"
}

// versionOf runs a program with --version.
func versionOf(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, path, "--version")
	c.WaitDelay = time.Second
	out, err := c.Output()
	if err != nil {
		return " (does not say its version: " + display.ClipLine(err.Error(), 80) + ")"
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return " (" + display.ClipLine(first, 60) + ")"
}

// endpoint checks what listens at the address of the configuration.
func (d *doctor) endpoint(ctx context.Context) {
	at, err := d.flags.open()
	if err != nil {
		d.add("port", fail, "", "%v", err)
		return
	}
	var s status.Status
	err = at.fetch(ctx, "status", &s)
	if err == nil {
		d.running = &s
		d.add("port", ok, "", "%s is ours, pid %d", at.base.Host, s.PID)
		d.version(&s)
		d.state(&s)
		return
	}
	if d.cfg != nil && d.cfg.Admin.Listen != "" && d.flags.url == "" {
		d.ownPort()
		if at, err = d.flags.public(); err != nil {
			return
		}
	}
	conn, dialed := net.DialTimeout("tcp", at.base.Host, 2*time.Second)
	if dialed != nil {
		d.add("port", ok, "", "%s is free: no endpoint runs there", at.base.Host)
		return
	}
	_ = conn.Close()
	if at.isOurs(ctx) {
		d.add("port", warn, "say with --url or --token-file how to ask for details", "%s is an endpoint's that does not say how it is: %v", at.base.Host, err)
		return
	}
	d.add("port", fail, "choose another address with listen, or end the program that has it", "%s is taken by another program", at.base.Host)
}

func (d *doctor) version(s *status.Status) {
	if s.Version != d.env.Version {
		d.add("version", warn, "start it again to run this version", "the running endpoint is %s, this program %s", s.Version, d.env.Version)
		return
	}
	d.add("version", ok, "", "the running endpoint is this version, %s", s.Version)
}

// state checks the status of the running endpoint.
func (d *doctor) state(s *status.Status) {
	if s.Config.Error != "" {
		first, _, _ := strings.Cut(s.Config.Error, "\n")
		d.add("running", fail, "mend the file; it is read again when it changes", "the last configuration is not served: %s", first)
	}
	bad := 0
	for _, b := range s.Backends {
		if b.State == status.Down {
			bad++
			d.add("running", fail, "vmcp logs "+b.Name, "backend %s is down: %s", b.Name, display.ClipLine(b.Error, 300))
		}
	}
	if bad == 0 && s.Config.Error == "" {
		d.add("running", ok, "", "%s, %s", count(len(s.Backends), "backend"), count(s.Tools.Visible, "tool"))
	}
}

// clients checks whether the entries of clients name another endpoint.
func (d *doctor) clients() {
	want := cli.FindEndpoint(cli.Flags{URL: d.flags.url, Config: d.flags.config}).URL
	if d.running != nil && d.running.URL != "" {
		want = d.running.URL
	}
	for _, entry := range setup.OwnEntries() {
		if strings.HasPrefix(strings.TrimSuffix(entry.URL, "/"), strings.TrimSuffix(want, "/")) {
			d.add("clients", ok, "", "%s leads here: %s", entry.Client, entry.File)
			continue
		}
		d.add("clients", warn, "write "+want+" there", "%s leads to %s: %s", entry.Client, entry.URL, entry.File)
	}
}

const (
	// mostCursor and mostCode bound the tools that Cursor and VS Code accept.
	mostCursor, mostCode = 40, 128
	// longestName bounds the name of a tool together with the prefix that a client adds.
	longestName, clientPrefix = 64, "mcp__vmcp__"
)

// lists checks the length of the list of tools that clients get, and of the names in it.
func (d *doctor) lists(ctx context.Context) {
	if d.running == nil {
		return
	}
	at, err := d.flags.open()
	if err != nil {
		return
	}
	var all struct{ Tools []status.ToolRow }
	if err := at.fetch(ctx, "tools", &all); err != nil {
		d.add("tools", warn, "", "%v", err)
		return
	}
	visible, bytes := 0, 0
	var long []string
	for _, t := range all.Tools {
		if t.Hidden {
			continue
		}
		visible++
		text, _ := json.Marshal(t) // encoding cannot fail
		bytes += len(text) + t.SchemaBytes
		if len(clientPrefix+t.Name) > longestName {
			long = append(long, t.Name)
		}
	}
	if len(long) > 0 {
		d.add("names", warn, "choose shorter ones under aggregation.tools[].overrides, or a shorter prefix for the backend",
			"%s longer than %d characters with %s in front, as some clients put it: %s", count(len(long), "name"), longestName, clientPrefix, display.ClipLine(strings.Join(long, ", "), 200))
	} else {
		d.add("names", ok, "", "none is longer than %d characters with %s in front", longestName, clientPrefix)
	}
	message := fmt.Sprintf("clients get %s, about %d tokens", count(visible, "tool"), bytes/4)
	switch {
	case visible > mostCode:
		d.add("tools", warn, "leave out what is not needed with aggregation.tools[].filter, or serve a profile", "%s: more than VS Code (%d) and Cursor (%d) take", message, mostCode, mostCursor)
	case visible > mostCursor:
		d.add("tools", warn, "leave out what is not needed with aggregation.tools[].filter, or serve a profile", "%s: more than Cursor takes (%d)", message, mostCursor)
	default:
		d.add("tools", ok, "", "%s", message)
	}
}
