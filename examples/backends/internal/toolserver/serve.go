package toolserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve serves s until ctx ends or the client disconnects: on the standard streams when
// addr is empty, else on http://addr/mcp.
//
// There is no authentication, so addr must be a loopback address.
func Serve(ctx context.Context, s *mcp.Server, addr string) error {
	if addr == "" {
		return ended(s.Run(ctx, lineTransport(os.Stdin, os.Stdout)))
	}
	l, err := listen(addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "serving http://%s/mcp\n", l.Addr())
	return serveHTTP(ctx, s, l)
}

// ended returns nil for the errors of a regular end.
func ended(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		l.Close()
		return nil, fmt.Errorf("listen on %s: want a loopback address such as 127.0.0.1:8080, as there is no authentication", addr)
	}
	return l, nil
}

func serveHTTP(ctx context.Context, s *mcp.Server, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { h.Close() })
	defer stop()
	return ended(h.Serve(l))
}
