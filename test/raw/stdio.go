package raw

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// StdioClient is a client over a pair of pipes, with one call at a time.
type StdioClient struct {
	Revision string
	// Capabilities is the object that it declares. Default: none.
	Capabilities string
	// Notified is called for every notification, in order.
	Notified func(m Message)
	// Asked returns the result of a request of the server.
	Asked func(m Message) string

	in  *bufio.Reader
	out io.Writer
	id  int
}

// NewStdioClient returns a client that reads from in and writes to out.
func NewStdioClient(revision string, in io.Reader, out io.Writer) *StdioClient {
	return &StdioClient{Revision: revision, in: bufio.NewReader(in), out: out}
}

// Connect initializes, or does nothing on 2026-07-28.
func (c *StdioClient) Connect() error {
	if c.Revision == Modern {
		return nil
	}
	if _, err := c.Call("initialize", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"raw","version":"1"}}`, c.Revision, c.capabilities())); err != nil {
		return err
	}
	return c.write(call("", "notifications/initialized", "{}"))
}

func (c *StdioClient) capabilities() string {
	return (&Client{Capabilities: c.Capabilities}).capabilities()
}

func (c *StdioClient) write(line []byte) error {
	_, err := c.out.Write(append(line, '\n'))
	return err
}

// Call returns the bytes of the result of a request.
func (c *StdioClient) Call(method, params string) (json.RawMessage, error) {
	c.id++
	id := fmt.Sprint(c.id)
	if c.Revision == Modern {
		params = (&Client{Capabilities: c.Capabilities}).withMeta(params)
	}
	if err := c.write(call(id, method, params)); err != nil {
		return nil, err
	}
	for {
		line, err := c.in.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var m Message
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("%w: %s", err, line)
		}
		switch {
		case m.Method == "" && string(m.ID) == id && m.Error != nil:
			return nil, m.Error
		case m.Method == "" && string(m.ID) == id:
			return m.Result, nil
		case m.Method != "" && m.ID != nil && c.Asked != nil:
			if err := c.write(answer(m.ID, c.Asked(m), nil)); err != nil {
				return nil, err
			}
		case m.Method != "" && c.Notified != nil:
			c.Notified(m)
		}
	}
}
