package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"
	"sync"
)

// servePeer serves h until stdin ends, at the latest when the parent process ends. The first line of
// stdout is the base URL.
func servePeer(stdin io.Reader, stdout io.Writer, h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("/metrics", serveMetrics)
	server := &http.Server{Handler: mux}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	fmt.Fprintf(stdout, "http://%s\n", l.Addr())
	io.Copy(io.Discard, stdin)
	server.Close()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// serveMetrics serves metrics of the Go runtime with the names of vmcp's.
func serveMetrics(w http.ResponseWriter, _ *http.Request) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Fprintf(w, "go_memstats_mallocs_total %d\ngo_memstats_alloc_bytes_total %d\ngo_memstats_heap_alloc_bytes %d\ngo_gc_duration_seconds_count %d\n",
		m.Mallocs, m.TotalAlloc, m.HeapAlloc, m.NumGC)
}

// serveReverse is the proxy to compare with: httputil.ReverseProxy, with a transport that
// keeps as many idle connections as there are callers and does not decompress bodies.
func serveReverse(stdin io.Reader, stdout io.Writer, o options) error {
	to, err := url.Parse(o.reverse)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = 0
	transport.MaxIdleConnsPerHost = 256
	transport.DisableCompression = true
	p := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: transport,
	}
	if o.bufferPool {
		p.BufferPool = new(bufferPool)
	}
	return servePeer(stdin, stdout, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without this a response that begins before the end of the request was forwarded may be
		// cut, one in a few thousand on a busy machine.
		http.NewResponseController(w).EnableFullDuplex()
		p.ServeHTTP(w, r)
	}))
}

// bufferPool keeps copy buffers.
type bufferPool struct{ pool sync.Pool }

// Get returns a buffer of the size that the reverse proxy allocates without a pool.
func (p *bufferPool) Get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

// Put returns a buffer to the pool.
func (p *bufferPool) Put(b []byte) { p.pool.Put(&b) }
