package outgoing_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testkit"
)

// viaProxy is the environment variable with the file of authorities of a child of the tests, whose environment has a proxy.
const viaProxy = "OUTGOING_VIA_PROXY"

// forward is a proxy that resolves made-up hosts, and records the requests that it gets.
type forward struct {
	plain, secure string // addresses; CONNECT requests are forwarded to secure

	mu    sync.Mutex
	asked []string // guarded by mu
}

func (f *forward) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, strings.TrimSpace(r.Method+" "+r.URL.Host+r.URL.Path))
	f.mu.Unlock()
	if r.Method == http.MethodConnect {
		f.tunnel(w)
		return
	}
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Host = "", f.plain
	resp, err := (&http.Transport{}).RoundTrip(out)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// tunnel connects the client with the TLS server.
func (f *forward) tunnel(w http.ResponseWriter) {
	to, err := net.Dial("tcp", f.secure)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer to.Close()
	w.WriteHeader(http.StatusOK)
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	go func() { _, _ = io.Copy(to, bufio.NewReader(buffered)) }()
	_, _ = io.Copy(from, to)
}

// Backends and token endpoints are reached through the proxy of the environment: http by forwarded requests,
// https through a tunnel, of which the proxy learns the host only; hosts of NO_PROXY and
// loopback addresses are reached directly.
func TestTheProxyOfTheEnvironment(t *testing.T) {
	dir, trusted := t.TempDir(), testkit.NewAuthority(t)
	ca := filepath.Join(dir, "ca.pem")
	trusted.WriteCert(t, ca)
	e := newEndpoint(t)
	mux := http.NewServeMux()
	g := newGuarded(t, false, func(a string) bool { return e.owner(strings.TrimPrefix(a, "Bearer ")) == "vmcp" })
	mux.Handle("backend.test/", g)
	mux.Handle("idp.test/", e)
	plain := httptest.NewServer(mux)
	t.Cleanup(plain.Close)
	hidden := newGuarded(t, false, func(a string) bool { return a == "Bearer s3cret-of-the-tunnel" })
	secure := httptest.NewUnstartedServer(hidden)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{named(t, trusted, "secure.test")}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	f := &forward{plain: plain.Listener.Addr().String(), secure: secure.Listener.Addr().String()}
	p := httptest.NewServer(f)
	t.Cleanup(p.Close)

	cmd := exec.Command(os.Args[0], "-test.run=^TestThroughAProxy$", "-test.v")
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.Contains(strings.ToLower(v), "_proxy=") }),
		viaProxy+"="+ca, "OUTGOING_LOOPBACK="+newGuarded(t, false, nil).URL, "HTTP_PROXY="+p.URL, "HTTPS_PROXY="+p.URL, "NO_PROXY=direct.test")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: TestThroughAProxy") {
		t.Errorf("%v\n%s", err, out)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := slices.Compact(slices.Sorted(slices.Values(f.asked)))
	if want := []string{"CONNECT secure.test:443", "POST backend.test/mcp", "POST idp.test/token"}; !slices.Equal(without(asked, "GET backend.test/mcp", "DELETE backend.test/mcp"), want) {
		t.Errorf("the proxy was asked for %q, want %q", asked, want)
	}
}

// without is all but some.
func without(all []string, some ...string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return slices.Contains(some, s) })
}

// TestThroughAProxy runs in a child of TestTheProxyOfTheEnvironment.
func TestThroughAProxy(t *testing.T) {
	ca := os.Getenv(viaProxy)
	if ca == "" {
		t.Skip("runs in a child of another test")
	}
	cfg := &config.Config{
		Backends: []config.Backend{
			{Name: "plain", URL: "http://backend.test/mcp"},
			{Name: "secure", URL: "https://secure.test/mcp", TLS: config.BackendTLS{CA: ca}},
			{Name: "direct", URL: "http://direct.test/mcp"},
			{Name: "near", URL: os.Getenv("OUTGOING_LOOPBACK")},
		},
		OutgoingAuth: config.OutgoingAuth{Backends: map[string]config.OutgoingStrategy{
			"plain":  credentialsOf(&endpoint{Server: &httptest.Server{URL: "http://idp.test"}}),
			"secure": {Type: "header_injection", HeaderInjection: config.HeaderInjection{HeaderName: "Authorization", HeaderValue: "Bearer s3cret-of-the-tunnel"}},
		}},
	}
	v := serve(t, cfg)
	for _, b := range v.Status().Backends {
		if up := b.State == "ready"; up != (b.Name != "direct") {
			t.Errorf("%s is %s: %s", b.Name, b.State, b.Error)
		}
	}
}
