package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/test/rig"
)

// site has the processes that are compared.
type site struct {
	dir     string
	binary  string // of vmcp
	backend *process
	reverse *process
	vmcp    *process
	nginx   *process // nil where it is not installed
	older   *process // vmcp of another binary; nil without one
}

// The backends of the configuration, by revision; their names are the prefixes of tools.
var backendNames = map[string]string{legacy: "old", modern: "new"}

// scripts are the scripted tools. Each calls tools of one backend.
const scripts = `
scriptedTools:
  - name: three
    description: Calls three tools, one after the other.
    script: |
      def run(args):
          for i in range(3):
              call_tool("old.json_100", {"text": str(i)})
          return "done"
  - name: nothing
    description: Calls nothing.
    script: |
      def run(args):
          return "done"
  - name: side_by_side
    description: Calls n tools side by side.
    script: |
      def run(args):
          return len(parallel(lambda i: call_tool("old_wait"), range(args["n"])))
    parameters: {type: object, properties: {n: {type: integer}}}
  - name: read
    description: Reads a large result.
    script: |
      def run(args):
          rows = call_tool("old_rows_" + args["size"])["rows"]
          total = 0
          for row in rows:
              total += row["price"]
          return total
    parameters: {type: object, properties: {size: {type: string}}}
limits: {result: 32MB, steps: 100000000, memory: 1GB}
`

// openSite starts the peers and vmcp in front of the two backends.
func openSite(ctx context.Context, o options) (_ *site, err error) {
	s := new(site)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "vmcp-bench-"); err != nil {
		return nil, err
	}
	if s.binary = o.vmcp; s.binary == "" {
		if s.binary, err = rig.Build(ctx, s.dir); err != nil {
			return nil, fmt.Errorf("build vmcp: %w", err)
		}
	}
	if s.backend, err = startPeer("-serve-backend"); err != nil {
		return nil, err
	}
	if s.reverse, err = startPeer("-serve-reverse", s.backend.base, fmt.Sprintf("-buffer-pool=%t", o.bufferPool)); err != nil {
		return nil, err
	}
	var config strings.Builder
	config.WriteString("backends:\n")
	for _, revision := range []string{legacy, modern} {
		fmt.Fprintf(&config, "  - {name: %s, url: %s}\n", backendNames[revision], s.endpoint(revision, "few"))
	}
	if s.vmcp, err = s.serve(s.binary, "vmcp.yaml", config.String()+scripts); err != nil {
		return s, err
	}
	if err = s.vmcp.awaitReady(2, 0, 4*len(sizes)); err != nil {
		return s, err
	}
	return s, s.openOthers(o, config.String()+scripts)
}

// openOthers starts the other processes to compare with: another vmcp, and nginx.
func (s *site) openOthers(o options, config string) (err error) {
	if o.against != "" {
		if s.older, err = s.serve(o.against, "older.yaml", config); err == nil {
			err = s.older.awaitReady(2, 0, 4*len(sizes))
		}
	}
	if err == nil && !o.check {
		s.nginx, err = startNginx(s.dir, s.backend.base)
	}
	return err
}

// endpoint is the URL of the backend in a revision and with a list of tools.
func (s *site) endpoint(revision, list string) string {
	return s.backend.base + "/" + revision + "/" + list + "/mcp"
}

// serve starts a binary of vmcp with a configuration, and does not wait until it is ready.
func (s *site) serve(binary, name, config string) (*process, error) {
	file := filepath.Join(s.dir, name)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	port, err := rig.Port()
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := start(exec.Command(binary, "serve", "--config", file, "--listen", addr))
	if err != nil {
		return nil, err
	}
	go p.wait()
	p.base = "http://" + addr
	return p, nil
}

// awaitReady waits until the given numbers of backends are ready and down, with the given number of
// tools listed.
func (p *process) awaitReady(ready, down, tools int) error {
	return p.awaitHTTP(p.base+"/readyz?tools", 2*time.Millisecond, func(body []byte) bool {
		var status struct {
			Backends []struct{ State string }
			Tools    []struct{}
		}
		if json.NewDecoder(bytes.NewReader(body)).Decode(&status) != nil {
			return false
		}
		count := map[string]int{}
		for _, b := range status.Backends {
			count[b.State]++
		}
		return count["ready"] == ready && count["down"] == down && len(status.Tools) >= tools
	})
}

func (s *site) close() {
	for _, p := range []*process{s.nginx, s.older, s.vmcp, s.reverse, s.backend} {
		if p != nil {
			p.stop()
		}
	}
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// The ways to the backend.
const (
	direct = iota
	reverse
	relayed
	before // through another binary of vmcp
	nginx
	ways
)

var wayNames = [ways]string{"direct", "reverse", "vmcp", "before", "nginx"}

// has reports whether a way is measured.
func (s *site) has(way int) bool { return way == direct || s.front(way) != nil }

// target is the endpoint of one way.
func (s *site) target(way int, revision string) target {
	switch way {
	case direct:
		return target{url: s.endpoint(revision, "few"), revision: revision}
	case reverse, nginx:
		return target{url: strings.Replace(s.endpoint(revision, "few"), s.backend.base, s.front(way).base, 1), revision: revision}
	}
	return target{url: s.front(way).base + "/mcp", revision: revision, prefix: backendNames[revision] + "_"}
}

// front is the process in front of the backend; nil on the direct way.
func (s *site) front(way int) *process {
	return [ways]*process{nil, s.reverse, s.vmcp, s.older, s.nginx}[way]
}

// alive returns an error when one of the processes has ended.
func (s *site) alive() error {
	var errs []error
	for _, p := range []*process{s.backend, s.reverse, s.vmcp, s.older, s.nginx} {
		if p == nil {
			continue
		}
		select {
		case <-p.done:
			errs = append(errs, fmt.Errorf("%s ended: %s", p.cmd.Path, p.log))
		default:
		}
	}
	return errors.Join(errs...)
}
