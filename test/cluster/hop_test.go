//go:build suites

package cluster

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/raw"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// BenchmarkHop measures the cost of a request that arrives at another replica than the owner of its session:
//
//	go test -tags suites ./test/cluster -run XXX -bench Hop -benchtime 100x
//
// One client makes the same call in three ways alternately, so that noise of the machine affects all of them: at the owner, at another
// replica, and at a httputil.ReverseProxy in a separate process in front of the owner, the minimal cost of a hop in
// Go. Each operation is hopTurns calls in each way. The times are p50 of one call; cpu is the CPU time of one call in all
// servers together, without the client and the backend, the median of the turns.
func BenchmarkHop(b *testing.B) {
	pg := runstest.Start(b)
	for _, secure := range []bool{false, true} {
		settings, over := clustered, ""
		if secure {
			settings, over = clusteredTLS(b), ", peers over TLS"
		}
		w := newWorld(b, pg, settings)
		for _, r := range w.replicas {
			r.start()
			r.awaitReady()
		}
		c, ways := session(b, w.replicas[0].url()), w.hops(b)
		for _, call := range hopCalls {
			b.Run(call.name+over, func(b *testing.B) { benchmarkHop(b, c, call, ways) })
		}
		w.end()
	}
}

func benchmarkHop(b *testing.B, c *raw.Client, call hopCall, ways []*hopWay) {
	for range 5 { // connections, and pools that fill
		measureHops(b, c, call, ways)
	}
	for _, way := range ways {
		way.reset()
	}
	for b.Loop() {
		measureHops(b, c, call, ways)
	}
	owner := ways[0]
	for _, way := range ways {
		b.ReportMetric(float64(median(way.took).Nanoseconds())/1e3, way.name+"-µs")
		b.ReportMetric(float64(median(way.cpu).Nanoseconds())/1e3, way.name+"-cpu-µs")
		if way != owner {
			b.ReportMetric(float64(median(way.took))/float64(median(owner.took)), way.name+"/owner")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// clusteredTLS is clustered with mutual TLS between the replicas.
func clusteredTLS(t testing.TB) string {
	authority, dir := testkit.NewAuthority(t), t.TempDir()
	ca := filepath.Join(dir, "ca.crt")
	authority.WriteCert(t, ca)
	cert, key := testkit.WritePair(t, dir, "replica", authority.Issue(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}))
	tls := fmt.Sprintf(", tls: {cert: %q, key: %q, ca: %q}}", cert, key, ca)
	return strings.Replace(clustered, "}\n", tls+"\n", 1)
}

// testHop: the cost of a hop relative to a reverse proxy is bounded. The bounds leave room for other load on the machine: most of
// a hop's time is waking up processes, which then varies, for the reverse proxy, too. docs/scaling.md has measurements.
func testHop(t *testing.T, pg *runstest.Server) {
	w := started(t, pg, clustered)
	c := session(t, w.replicas[0].url())
	ways := w.hops(t)
	for range 2 { // connections
		measureHops(t, c, hopCalls[0], ways)
	}
	for _, way := range ways {
		way.reset()
	}
	for range 40 {
		measureHops(t, c, hopCalls[0], ways)
	}
	owner, hop, plain := ways[0], ways[1], ways[2]
	for _, way := range ways {
		t.Logf("%s: p50 %v, CPU of the servers %v", way.name, median(way.took), median(way.cpu))
	}
	if median(hop.took) > 2*median(plain.took)+2*time.Millisecond {
		t.Errorf("a hop takes %v, a plain proxy %v", median(hop.took), median(plain.took))
	}
	direct := median(owner.cpu)
	if took, least := median(hop.cpu)-direct, median(plain.cpu)-direct; took > 2*least {
		t.Errorf("a hop takes %v of the processors, a plain proxy %v", took, least)
	}
}

// hopTurns is the number of calls in one way before the next way is used.
const hopTurns = 20

type hopCall struct{ name, method, params string }

var hopCalls = []hopCall{
	{"tools list", "tools/list", `{}`},
	{"call of a backend", "tools/call", `{"name":"look","arguments":{"what":"it"}}`},
}

// A hopWay is one way to the owner of a session.
type hopWay struct {
	name, url string
	processes []int           // that are on it
	took      []time.Duration // by one call
	cpu       []time.Duration // of them all, for one call of a turn
}

func (h *hopWay) reset() { h.took, h.cpu = nil, nil }

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func (h *hopWay) cpuNow() (all time.Duration) {
	for _, pid := range h.processes {
		all += cpuTime(pid)
	}
	return all
}

// hops are the ways to the first replica: directly, through the second, and through a reverse proxy.
func (w *world) hops(t testing.TB) []*hopWay {
	t.Helper()
	owner, other := w.replicas[0], w.replicas[1]
	addr, pid := w.plainProxy(t, owner)
	return []*hopWay{
		{name: "owner", url: owner.url(), processes: []int{owner.process.Cmd.Process.Pid}},
		{name: "hop", url: other.url(), processes: []int{owner.process.Cmd.Process.Pid, other.process.Cmd.Process.Pid}},
		{name: "plain", url: "http://" + addr + "/mcp", processes: []int{owner.process.Cmd.Process.Pid, pid}},
	}
}

// measureHops makes the turn of each way.
func measureHops(t testing.TB, c *raw.Client, call hopCall, ways []*hopWay) {
	t.Helper()
	for _, way := range ways {
		c.URL = way.url
		before := way.cpuNow()
		for range hopTurns {
			began := time.Now()
			if _, err := c.Call(t.Context(), call.method, call.params); err != nil {
				t.Fatal(err)
			}
			way.took = append(way.took, time.Since(began))
		}
		way.cpu = append(way.cpu, (way.cpuNow()-before)/hopTurns)
	}
}

// cpuTime is the CPU time a process has taken, to the nanosecond: the clock of clock_getcpuclockid(3) of Linux, 0 elsewhere.
func cpuTime(pid int) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|2), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// proxyEnv is the environment variable that makes this program a reverse proxy: the addresses to listen on and to forward to.
const proxyEnv, proxyToEnv = "VMCP_TEST_PROXY", "VMCP_TEST_PROXY_TO"

func TestMain(m *testing.M) {
	if at := os.Getenv(proxyEnv); at != "" {
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: os.Getenv(proxyToEnv)})
		proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
		fmt.Fprintln(os.Stderr, http.ListenAndServe(at, proxy))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// plainProxy starts a reverse proxy in front of a replica, in a separate process.
func (w *world) plainProxy(t testing.TB, to *replica) (addr string, pid int) {
	t.Helper()
	addr = w.port()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), proxyEnv+"="+addr, proxyToEnv+"="+to.addr)
	p, err := rig.StartCmd(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	to.await("a plain proxy", func() (bool, error) {
		resp, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false, nil
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK, nil
	})
	return addr, cmd.Process.Pid
}
