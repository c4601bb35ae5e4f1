package toolserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lineTransport serves messages of one line each, and continues after malformed lines: the
// SDK's transport closes the connection at the first of them.
func lineTransport(in io.ReadCloser, out io.Writer) mcp.Transport {
	w := &lineWriter{w: out}
	return &mcp.IOTransport{
		Reader:        &lineReader{ReadCloser: in, lines: bufio.NewReader(in), errors: w},
		Writer:        w,
		MaxLineLength: -1, // lineReader has the bound
	}
}

// lineReader returns the valid lines, and answers malformed ones with an error.
type lineReader struct {
	io.ReadCloser
	lines  *bufio.Reader
	errors *lineWriter
	rest   []byte // of a valid line
}

func (r *lineReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		line, err := r.next()
		if err != nil {
			return 0, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if refused := refuse(line); refused != nil {
			if err := r.errors.answer(refused); err != nil {
				return 0, err
			}
			continue
		}
		r.rest = append(line, '\n')
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next reads a line. Of one that is too long it returns only the beginning, which is no JSON.
func (r *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := r.lines.ReadSlice('\n')
		if len(line) <= mcp.DefaultMaxLineLength {
			line = append(line, part...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == io.EOF && len(line) > 0 {
			err = nil
		}
		return line, err
	}
}

// lineError is the response to a line that is no message.
type lineError struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   jsonrpc.Error   `json:"error"`
}

// refuse returns the response to a line that is no message, nil for a message.
func refuse(line []byte) *lineError {
	switch {
	case len(line) > mcp.DefaultMaxLineLength:
		return newLineError(jsonrpc.CodeInvalidRequest, nil, fmt.Sprintf("the line is longer than %d bytes", mcp.DefaultMaxLineLength))
	case !json.Valid(line):
		return newLineError(jsonrpc.CodeParseError, nil, "the line is no JSON")
	case line[0] == '[':
		return newLineError(jsonrpc.CodeInvalidRequest, nil, "want one message, have a batch")
	}
	if _, err := jsonrpc.DecodeMessage(line); err != nil {
		return newLineError(jsonrpc.CodeInvalidRequest, line, err.Error())
	}
	return nil
}

// newLineError returns a response with the id of the request, if the line has a valid one.
func newLineError(code int64, request []byte, message string) *lineError {
	e := &lineError{Version: "2.0", Error: jsonrpc.Error{Code: code, Message: message}}
	var r struct {
		ID     any    `json:"id"`
		Method string `json:"method"`
	}
	d := json.NewDecoder(bytes.NewReader(request))
	d.UseNumber()
	if d.Decode(&r) != nil || r.Method == "" {
		return e
	}
	switch r.ID.(type) {
	case string, json.Number:
		e.ID, _ = json.Marshal(r.ID)
	}
	return e
}

// lineWriter serializes the lines of two writers.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

// Close leaves the process's standard output open, as mcp.StdioTransport does.
func (w *lineWriter) Close() error { return nil }

func (w *lineWriter) answer(e *lineError) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
