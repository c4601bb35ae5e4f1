package backendtest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// role is the variable that makes a test binary a server.
const role = "BACKENDTEST_ROLE"

// Main runs the tests, or, in a process that Stdio configured, the server.
func Main(m *testing.M) {
	if name := os.Getenv(role); name != "" {
		play(name)
		os.Exit(0)
	}
	testmode.SideBySide(16)
	os.Exit(m.Run())
}

// Stdio configures a backend that runs a server in a separate process. Role "sdk" is the
// server of New, "legacy" the same before 2026-07-28; for the others see misbehave.
func Stdio(name, as string) config.Backend {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return config.Backend{Name: name, Command: self, Env: map[string]string{role: as}}
}

// play runs the server that Stdio asked for.
func play(name string) {
	switch name {
	case "sdk":
		New().Run(context.Background(), &mcp.StdioTransport{})
	case "legacy":
		New("2025-11-25", "2025-06-18").Run(context.Background(), &mcp.StdioTransport{})
	default:
		misbehave(name)
	}
}

// HTTP serves s over Streamable HTTP, stateful (revisions up to 2025-11-25) or not
// (2026-07-28), and returns the URL.
func HTTP(t testing.TB, s *mcp.Server, stateful bool) string {
	return serve(t, streamable(s, stateful)) + "/mcp"
}

// Listen is HTTP on the caller's listener. stop closes all connections, as if the
// server had been killed.
func Listen(t testing.TB, l net.Listener, s *mcp.Server, stateful bool) (stop func()) {
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: streamable(s, stateful)}}
	server.Start()
	stop = sync.OnceFunc(func() { end(server) })
	t.Cleanup(stop)
	return stop
}

func streamable(s *mcp.Server, stateful bool) http.Handler {
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: !stateful, PropagateRequestCancellation: true})
	ending := http.TimeoutHandler(h, endTime, "a tool of the session has not ended")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			ending.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// endTime bounds the end of a session: the SDK waits for a tool that waits for the client, and the shutdown of the
// server for both.
const endTime = 5 * time.Second

// SSE serves s over the HTTP+SSE transport of 2024-11-05.
func SSE(t testing.TB, s *mcp.Server) string {
	return serve(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil)) + "/sse"
}

func serve(t testing.TB, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(func() { end(server) })
	return server.URL
}

// end closes a server and cuts its connections, open streams included.
func end(server *httptest.Server) {
	server.Listener.Close()
	server.CloseClientConnections()
	server.Close()
}
