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

// Serve serves s until ctx ends or the client is gone: on the standard streams when
// addr is empty, else on http://addr/mcp.
//
// There is no authentication, so addr must be a loopback address.
func Serve(ctx context.Context, s *mcp.Server, addr string) error {
	var err error
	if addr == "" {
		err = s.Run(ctx, &mcp.StdioTransport{})
	} else {
		err = serveHTTP(ctx, s, addr)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func serveHTTP(ctx context.Context, s *mcp.Server, addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		l.Close()
		return fmt.Errorf("listen on %s: want a loopback address such as 127.0.0.1:8080, as there is no authentication", addr)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { h.Close() })
	defer stop()
	fmt.Fprintf(os.Stderr, "serving http://%s/mcp\n", l.Addr())
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
