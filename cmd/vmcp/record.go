package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// recorder keeps the bodies of the answers that pass, so that a result can be shown
// as it was sent: the SDK's types would drop fields and round large numbers.
type recorder struct {
	base http.RoundTripper

	mu     sync.Mutex
	bodies []*recording // guarded by mu
}

// recording is one body as far as it has been read.
type recording struct {
	io.ReadCloser
	stream bool // server-sent events

	mu   sync.Mutex
	data bytes.Buffer // guarded by mu
}

// Read passes on and keeps.
func (r *recording) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.data.Write(p[:n])
	return n, err
}

// RoundTrip keeps the answers to POST.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.base.RoundTrip(req)
	if err != nil || req.Method != http.MethodPost {
		return resp, err
	}
	kept := &recording{ReadCloser: resp.Body, stream: strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")}
	resp.Body = kept
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, kept)
	return resp, nil
}

// forget drops what was kept.
func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = nil
}

// result returns the last result of a tool that passed, byte for byte; nil if none did.
func (r *recorder) result() json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	var last json.RawMessage
	for _, kept := range r.bodies {
		for _, frame := range kept.frames() {
			if result := wire.Get(frame, "result"); wire.Get(result, "content") != nil || wire.Get(result, "structuredContent") != nil {
				last = result
			}
		}
	}
	return last
}

func (r *recording) frames() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	data := bytes.Clone(r.data.Bytes())
	if !r.stream {
		return [][]byte{data}
	}
	var frames [][]byte
	events := wire.NewEventReader(bytes.NewReader(data), len(data)+1)
	for e, err := events.Next(); err == nil; e, err = events.Next() {
		frames = append(frames, e.Data)
	}
	return frames
}
