package httpclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// atOnce bounds the body of a request that is written together with its head, in bytes.
	atOnce = 64 << 10
	// writeGrace bounds the wait for the end of the request's write after its response was read.
	writeGrace = 50 * time.Millisecond
)

var errLongHead = errors.New("the head of the response is too long")

// requests pools buffers for whole requests.
var requests = sync.Pool{New: func() any { return new([]byte) }}

// exchange is one request and its response, and the body of the response. Read must not be called
// concurrently; Close may be called at any time.
type exchange struct {
	t       *Transport
	c       *conn
	request *http.Request
	stop    func() bool   // detaches the exchange from its context
	written chan struct{} // closed when the goroutine that writes the request has ended; nil: none
	sendErr error         // error of that write; valid after written is closed
	unsent  bool          // no byte was written; valid after written is closed

	came bool          // a byte of the response was received
	body io.ReadCloser // from http.ReadResponse
	last bool          // the connection ends with the response
	err  error         // error of the end of the body, for later reads
	over atomic.Bool   // the connection was released
}

// exchange makes a request on c. It takes ownership of c and of the body of r.
func (t *Transport) exchange(c *conn, r *http.Request) (*http.Response, error) {
	e := &exchange{t: t, c: c, request: r}
	e.stop = context.AfterFunc(r.Context(), e.interrupt)
	if err := e.send(); err != nil {
		return nil, e.fail(err)
	}
	resp, err := e.receive()
	if err != nil {
		return nil, e.fail(err)
	}
	e.last = resp.Close || resp.StatusCode < 200
	if resp.Body == http.NoBody || resp.ContentLength == 0 {
		e.end(true)
		return resp, nil
	}
	e.body, resp.Body = resp.Body, e
	return resp, nil
}

// interrupt makes all blocked reads and writes of the connection return.
func (e *exchange) interrupt() { e.c.SetDeadline(time.Unix(1, 0)) }

// send writes the request; a goroutine writes the part that the socket does not accept at once.
func (e *exchange) send() error {
	if e.request.ContentLength > atOnce {
		e.written = make(chan struct{})
		go e.writeAll()
		return nil
	}
	defer closeBody(e.request)
	held := requests.Get().(*[]byte)
	b, err := appendRequest((*held)[:0], e.request)
	if err != nil {
		return err
	}
	*held = b
	n, err := e.c.tryWrite(b)
	e.unsent = n == 0 && err != nil
	if err == nil && n < len(b) {
		e.written = make(chan struct{})
		go e.writeRest(held, n)
		return nil
	}
	requests.Put(held)
	return err
}

// writeRest writes the rest of a request.
func (e *exchange) writeRest(held *[]byte, from int) {
	defer close(e.written)
	_, e.sendErr = e.c.Conn.Write((*held)[from:])
	requests.Put(held)
}

// writeAll writes a request with a large body. When the body cannot be read, it closes the
// connection; after a write error it does not, because a response may still be read.
func (e *exchange) writeAll() {
	defer close(e.written)
	defer closeBody(e.request)
	to := &socketWriter{conn: e.c.Conn}
	w := bufio.NewWriter(to)
	err := e.request.Write(w)
	if err == nil {
		err = w.Flush()
	}
	e.sendErr, e.unsent = err, to.failed && to.n == 0
	if err != nil && !to.failed {
		e.c.Close()
	}
}

// socketWriter writes to a connection and records the bytes written and whether a write failed:
// http.Request.Write does not distinguish errors of the body from those of the connection.
type socketWriter struct {
	conn   net.Conn
	n      int64
	failed bool
}

func (w *socketWriter) Write(p []byte) (int, error) {
	n, err := w.conn.Write(p)
	w.n += int64(n)
	w.failed = err != nil
	return n, err
}

// receive reads the head of the response.
func (e *exchange) receive() (*http.Response, error) {
	most := maxHead(e.t.std)
	e.c.left = most
	if _, err := e.c.r.Peek(1); err != nil {
		return nil, fmt.Errorf("no response: %w", err)
	}
	e.came = true
	for {
		resp, err := http.ReadResponse(e.c.r, e.request)
		switch {
		case errors.Is(err, errLongHead):
			return nil, fmt.Errorf("the head of the response has more than %d bytes", most)
		case err != nil:
			return nil, err
		case resp.StatusCode >= 200 || resp.StatusCode < 100 || resp.StatusCode == http.StatusSwitchingProtocols:
			e.c.left = unlimited
			return resp, nil
		case e.t.Ahead != nil:
			e.t.Ahead(e.request)
		}
	}
}

// fail ends an exchange without a response, and returns the error for err.
func (e *exchange) fail(err error) error {
	ctx := e.request.Context()
	if e.t.Ahead != nil && (e.came || ctx.Err() != nil && !e.c.isEmpty()) {
		e.t.Ahead(e.request)
	}
	e.end(false)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case e.c.kept && e.unsent:
		return errUnwritten
	case e.sendErr != nil:
		return e.sendErr
	}
	return err
}

// Read reads the body of the response. At its end the connection is put back into the pool.
func (e *exchange) Read(p []byte) (int, error) {
	switch {
	case e.err != nil:
		return 0, e.err
	case e.over.Load():
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := e.body.Read(p)
	if err == nil {
		return n, nil
	}
	e.end(err == io.EOF)
	if ctx := e.request.Context(); err != io.EOF && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	e.err = err
	return n, err
}

// Close ends the exchange. It closes the connection if the response was not read to its end.
func (e *exchange) Close() error {
	e.end(false)
	return nil
}

// end releases the connection, once: to the pool if the response is complete and the connection
// can be reused, else it closes it. It returns when the request's body is no longer read.
func (e *exchange) end(complete bool) {
	if !e.over.CompareAndSwap(false, true) {
		return
	}
	usable := e.stop() && complete && !e.last && !e.c.eof && e.isWritten() && e.c.r.Buffered() == 0
	if !usable || !e.t.pool.put(e.c) {
		e.c.Close()
	}
	if e.written != nil {
		<-e.written
	}
}

// isWritten reports whether the request was written, waiting for at most writeGrace.
func (e *exchange) isWritten() bool {
	if e.written == nil {
		return true
	}
	t := time.NewTimer(writeGrace)
	defer t.Stop()
	select {
	case <-e.written:
		return e.sendErr == nil
	case <-t.C:
		return false
	}
}
