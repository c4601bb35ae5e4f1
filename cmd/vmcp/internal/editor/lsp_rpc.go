package editor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// maxMessage bounds one message, in bytes.
const maxMessage = 64 << 20

// message is a request, a response or a notification of JSON-RPC.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// rpcError is the error of a response.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// Codes of errors.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeNotInitialized = -32002
	codeFailed         = -32803
)

// refuse is an error that the editor shows to the user.
func refuse(format string, args ...any) error {
	return &rpcError{codeFailed, fmt.Sprintf(format, args...)}
}

// readMessage reads one message: its header, and the content that it returns.
func readMessage(r *bufio.Reader) ([]byte, error) {
	length := -1
	for lines := 0; ; lines++ {
		line, err := r.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, io.EOF) && len(line) == 0 && lines == 0 {
				return nil, io.EOF
			}
			return nil, fmt.Errorf("the header of a message: %w", err)
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			break
		}
		if lines > 20 {
			return nil, errors.New("the header of a message has more than 20 lines")
		}
		name, value, _ := strings.Cut(text, ":")
		if strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil || length < 0 {
				return nil, fmt.Errorf("Content-Length: want a number, have %q", value)
			}
		}
	}
	if length < 0 || length > maxMessage {
		return nil, fmt.Errorf("a message has a Content-Length of 0 to %d bytes, have %d", maxMessage, length)
	}
	content := make([]byte, length)
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, fmt.Errorf("a message of %d bytes: %w", length, err)
	}
	return content, nil
}

// writer writes one message at a time.
type writer struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (w *writer) write(m message) error {
	m.JSONRPC = "2.0"
	content, err := json.Marshal(m)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = fmt.Fprintf(w.w, "Content-Length: %d\r\n\r\n%s", len(content), content)
	return err
}
