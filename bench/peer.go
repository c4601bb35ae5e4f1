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

// servePeer serves h until stdin ends, which it does with the process that started this
// one. The first line of stdout is the base URL.
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

// serveMetrics shows what vmcp shows under the same names.
func serveMetrics(w http.ResponseWriter, _ *http.Request) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Fprintf(w, "go_memstats_mallocs_total %d\ngo_memstats_alloc_bytes_total %d\ngo_memstats_heap_alloc_bytes %d\ngo_gc_duration_seconds_count %d\n",
		m.Mallocs, m.TotalAlloc, m.HeapAlloc, m.NumGC)
}

// serveReverse is the yardstick: httputil.ReverseProxy as it comes, with a transport that
// keeps as many idle connections as there are callers and leaves bodies as they are.
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
		// Without this a proxy may cut an answer that begins before the end of the request
		// was passed on, which on a busy machine happens to one in a few thousand.
		http.NewResponseController(w).EnableFullDuplex()
		p.ServeHTTP(w, r)
	}))
}

// bufferPool keeps copy buffers.
type bufferPool struct{ pool sync.Pool }

// Get returns a buffer of the size that the reverse proxy makes itself.
func (p *bufferPool) Get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

// Put takes a buffer back.
func (p *bufferPool) Put(b []byte) { p.pool.Put(&b) }
