package replicas

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// Serve starts PostgreSQL and three replicas with a configuration, to which it adds sessionStorage and cluster, and
// returns a balancer in front of them. All of them end with the test.
func Serve(t testing.TB, binary, config string) *Balancer {
	t.Helper()
	dir, pg := t.TempDir(), runstest.Start(t)
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	for name, text := range map[string]string{
		"key":       base64.StdEncoding.EncodeToString(key),
		"vmcp.yaml": fmt.Sprintf("%s\nsessionStorage: {provider: postgres, url: %q, keys: [{id: a, file: key}]}\ncluster: {listen: \"${VMCP_TEST_PEERS}\"}\n", config, pg.URL()),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var hosts []string
	for range 3 {
		hosts = append(hosts, start(t, binary, dir))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, host := range hosts {
		if err := rig.AwaitReady(ctx, host); err != nil {
			t.Fatal(err)
		}
	}
	return NewBalancer(t, false, 0, hosts...)
}

// start starts one replica and returns its address.
func start(t testing.TB, binary, dir string) string {
	t.Helper()
	var addr [2]string
	for i := range addr {
		port, err := rig.Port()
		if err != nil {
			t.Fatal(err)
		}
		addr[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	cmd := exec.Command(binary, "serve", "--config", filepath.Join(dir, "vmcp.yaml"), "--listen", addr[0])
	cmd.Env = append(os.Environ(), "VMCP_TEST_PEERS="+addr[1])
	var log io.Writer = io.Discard
	if testing.Verbose() {
		log = os.Stderr
	}
	cmd.Stdout, cmd.Stderr = log, log
	p, err := rig.StartCmd(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.AwaitHTTP(ctx, "http://"+addr[0]+"/healthz"); err != nil {
		t.Fatal(err)
	}
	return addr[0]
}
