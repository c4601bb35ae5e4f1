// Package exec is an MCP server that runs programs of an allow-list, without a shell: each argument of
// a client is one argument of the program, whatever characters it has. A program runs in a new
// process group, which is killed at the end of the call, and its output is bounded.
//
//	go run ./examples/backends/exec/cmd/exec -allow git -allow wc -root .
package exec

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// Codes of refusals.
const (
	NotAllowed   = "not_allowed"   // the command is not on the list
	BadArguments = "bad_arguments" // an argument with a NUL character
	NotStarted   = "not_started"
	TimedOut     = "timeout" // the program and its child processes were killed
)

// Options of a server. Allow is required.
type Options struct {
	// Allow are the names of the programs, without a path: New looks each up on PATH.
	Allow []string
	// Root is the working directory of programs. Default: that of the server.
	Root string
	// Timeout bounds a run; a call may set a shorter one. Default 10s.
	Timeout time.Duration
	// MaxOutput bounds the part of standard output, and of standard error, that is kept, in bytes. Default 64 KiB.
	MaxOutput int
}

// Programs serves the programs of a list.
type Programs struct {
	files map[string]string // by name
	o     Options
}

// environment are the variables of the server's environment that programs get: others may be secrets.
var environment = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT", "PATHEXT", "TEMP"}

// New looks the programs up.
func New(o Options) (*Programs, error) {
	if len(o.Allow) == 0 {
		return nil, errors.New("want at least one -allow NAME: no program may run else")
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.MaxOutput <= 0 {
		o.MaxOutput = 64 << 10
	}
	if info, err := os.Stat(o.Root); o.Root != "" && (err != nil || !info.IsDir()) {
		return nil, fmt.Errorf("-root %s: want a folder", o.Root)
	}
	p := &Programs{files: map[string]string{}, o: o}
	for _, name := range o.Allow {
		if name != filepath.Base(name) || strings.ContainsAny(name, `/\`) || name == "." || name == ".." {
			return nil, fmt.Errorf("-allow %s: want the name of a program, without a path", name)
		}
		file, err := osexec.LookPath(name)
		if err == nil {
			file, err = filepath.Abs(file)
		}
		if err != nil {
			return nil, fmt.Errorf("-allow %s: %w", name, err)
		}
		p.files[name] = file
	}
	return p, nil
}

// Main is the command: it parses args, without the program's name, and serves stdio,
// or HTTP with -http, until ctx ends or the client disconnects.
func Main(ctx context.Context, args []string) error {
	var o Options
	flags := flag.NewFlagSet("exec", flag.ContinueOnError)
	flags.Var((*toolserver.Names)(&o.Allow), "allow", "`name` of a program that may run; may be given again")
	flags.StringVar(&o.Root, "root", ".", "folder that programs run in")
	flags.DurationVar(&o.Timeout, "timeout", 10*time.Second, "limit for one run")
	flags.IntVar(&o.MaxOutput, "max-output", 64<<10, "`bytes` that are kept of each output")
	addr := flags.String("http", "", "serve http://`ADDR`/mcp instead of stdio")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("exec: want flags only, have %q", flags.Arg(0))
	}
	p, err := New(o)
	if err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	return toolserver.Serve(ctx, p.Server(), *addr)
}

// Server returns a new MCP server with the tool run.
func (p *Programs) Server() *mcp.Server {
	yes := true
	s := mcp.NewServer(&mcp.Implementation{Name: "exec", Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: "Programs that may run: " + strings.Join(p.names(), ", ") + ".",
		Capabilities: &mcp.ServerCapabilities{},
	})
	toolserver.Add(s, &mcp.Tool{
		Name: "run", Title: "Run a program",
		Description: "Run one of the programs " + strings.Join(p.names(), ", ") + ". There is no shell: each argument arrives as it is, and pipes, globs and variables mean nothing. An exit code other than 0 is a result.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}, p.run)
	return s
}

func (p *Programs) names() []string {
	names := slices.Clone(p.o.Allow)
	slices.Sort(names)
	return slices.Compact(names)
}

type runIn struct {
	Command        string   `json:"command" jsonschema:"name of the program"`
	Args           []string `json:"args,omitempty" jsonschema:"its arguments, without its name"`
	Stdin          string   `json:"stdin,omitempty" jsonschema:"its standard input"`
	TimeoutSeconds float64  `json:"timeoutSeconds,omitempty" jsonschema:"end it after this long; the server may have a lower limit"`
}

type runOut struct {
	ExitCode  int    `json:"exitCode" jsonschema:"128 + n when signal n ended it"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Truncated bool   `json:"truncated" jsonschema:"whether there was more output than is here"`
}

func (p *Programs) run(ctx context.Context, in runIn) (*runOut, error) {
	file, ok := p.files[in.Command]
	if !ok {
		return nil, toolserver.Errorf(NotAllowed, "%q may not run; want one of %s", in.Command, strings.Join(p.names(), ", "))
	}
	for i, arg := range in.Args {
		if strings.ContainsRune(arg, 0) {
			return nil, toolserver.Errorf(BadArguments, "args[%d] has a NUL character", i)
		}
	}
	limit := p.o.Timeout
	if asked := time.Duration(min(in.TimeoutSeconds, limit.Seconds()) * float64(time.Second)); asked > 0 {
		limit = asked
	}
	run, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stdout, stderr := &output{room: p.o.MaxOutput}, &output{room: p.o.MaxOutput}
	c := osexec.CommandContext(run, file, in.Args...)
	c.Dir, c.Env, c.Stdin = p.o.Root, ownEnvironment(), strings.NewReader(in.Stdin)
	c.Stdout, c.Stderr = stdout, stderr
	c.WaitDelay = time.Second // for processes that it leaves running with its pipes open
	inGroup(c)
	err := c.Run()
	endGroup(c)
	var exit *osexec.ExitError
	switch {
	case err != nil && run.Err() != nil && ctx.Err() == nil:
		return nil, toolserver.Errorf(TimedOut, "%s did not end within %s and was killed%s", in.Command, limit, tail(stderr))
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && !errors.As(err, &exit) && !errors.Is(err, osexec.ErrWaitDelay):
		return nil, toolserver.Errorf(NotStarted, "%s: %v", in.Command, err)
	}
	return &runOut{ExitCode: exitCode(c.ProcessState), Stdout: stdout.text(), Stderr: stderr.text(), Truncated: stdout.more || stderr.more}, nil
}

func tail(stderr *output) string {
	if text := strings.TrimSpace(stderr.text()); text != "" {
		return "; it had written: " + text[max(0, len(text)-500):]
	}
	return ""
}

func ownEnvironment() (env []string) {
	for _, name := range environment {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// output keeps the beginning of a program's output and discards the rest, so that the program
// is not blocked.
type output struct {
	kept []byte
	room int
	more bool
}

func (o *output) Write(p []byte) (int, error) {
	n := min(len(p), o.room-len(o.kept))
	o.kept = append(o.kept, p[:n]...)
	o.more = o.more || n < len(p)
	return len(p), nil
}

// text is the kept output: invalid UTF-8 becomes U+FFFD, an incomplete character at the end is left out.
func (o *output) text() string {
	kept := o.kept
	for cut := 0; o.more && cut < utf8.UTFMax && len(kept) > 0; cut++ {
		if r, size := utf8.DecodeLastRune(kept); r != utf8.RuneError || size != 1 {
			break
		}
		kept = kept[:len(kept)-1]
	}
	return strings.ToValidUTF8(string(kept), "\uFFFD")
}
