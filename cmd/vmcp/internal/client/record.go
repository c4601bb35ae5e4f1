package client

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// recorder keeps the bodies of responses, so that a result can be shown
// as it was sent: the SDK's types would drop fields and round large numbers.
type recorder struct {
	base http.RoundTripper
	// notify is called for every notification before the result that follows it is read;
	// the SDK may call its handlers after the call has returned. It may be nil.
	notify func(method string, params json.RawMessage)

	mu     sync.Mutex
	bodies []*recording // guarded by mu
}

// recording is one body as far as it has been read.
type recording struct {
	io.ReadCloser
	stream bool // server-sent events
	notify func(method string, params json.RawMessage)

	mu       sync.Mutex
	data     bytes.Buffer // guarded by mu
	notified int          // how much of data notify was called for; guarded by mu
}

// Read implements io.Reader: it keeps a copy of what it reads.
func (r *recording) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.data.Write(p[:n])
	if r.stream && r.notify != nil {
		r.notifyNew()
	}
	return n, err
}

// notifyNew reports the notifications among the events that have become complete.
func (r *recording) notifyNew() {
	fresh := r.data.Bytes()[r.notified:]
	end := bytes.LastIndex(fresh, []byte("\n\n")) + len("\n\n")
	if end < len("\n\n") {
		return
	}
	r.notified += end
	for _, frame := range events(fresh[:end]) {
		if m, err := wire.Parse(frame); err == nil && m.IsNotification() {
			r.notify(m.Method, m.Params)
		}
	}
}

// RoundTrip keeps the bodies of responses to POST.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.base.RoundTrip(req)
	if err != nil || req.Method != http.MethodPost {
		return resp, err
	}
	kept := &recording{ReadCloser: resp.Body, notify: r.notify, stream: strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")}
	resp.Body = kept
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, kept)
	return resp, nil
}

// forget drops the bodies.
func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = nil
}

// form returns the schema of the last elicitation request with this message, as it was sent: as a
// request, or in the inputRequests of a result. nil if there was none.
func (r *recorder) form(message string) json.RawMessage {
	var form json.RawMessage
	look := func(params json.RawMessage) {
		if jsonscan.GetString(params, "message") == message {
			form = jsonscan.Get(params, "requestedSchema")
		}
	}
	r.each(func(frame []byte) {
		if jsonscan.GetString(frame, "method") == wire.Elicit {
			look(jsonscan.Get(frame, "params"))
		}
		jsonscan.Each(jsonscan.GetPath(frame, "result", "inputRequests"), func(_, request []byte) bool {
			look(jsonscan.Get(request, "params"))
			return true
		})
	})
	return form
}

// result returns the last result of a tool among the responses, byte for byte; nil if there is none.
func (r *recorder) result() json.RawMessage {
	var last json.RawMessage
	r.each(func(frame []byte) {
		if result := jsonscan.Get(frame, "result"); jsonscan.Get(result, "content") != nil || jsonscan.Get(result, "structuredContent") != nil {
			last = result
		}
	})
	return last
}

// each visits the JSON-RPC messages that have been read so far.
func (r *recorder) each(visit func(frame []byte)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kept := range r.bodies {
		for _, frame := range kept.frames() {
			if jsonscan.Valid(frame) { // a body may be incomplete
				visit(frame)
			}
		}
	}
}

func (r *recording) frames() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	data := bytes.Clone(r.data.Bytes())
	if !r.stream {
		return [][]byte{data}
	}
	return events(data)
}

// events returns the messages in a stream of server-sent events, which may be incomplete.
func events(stream []byte) (frames [][]byte) {
	r := wire.NewEventReader(bytes.NewReader(stream), len(stream)+1)
	for e, err := r.Next(); err == nil; e, err = r.Next() {
		frames = append(frames, e.Data)
	}
	return frames
}
