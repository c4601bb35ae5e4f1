package operate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge"

	"github.com/vmcp-dev/vmcp/proxy/runs"
	"github.com/vmcp-dev/vmcp/script/durable"
)

const (
	// maxCalls bounds the concurrent calls of operators, maxReads those whose result (at most maxResult) is in memory.
	maxCalls, maxReads = 64, 4
	maxResult          = 32 << 20
	// defaultBody is the size limit of a request in bytes, if maxRequestBody is not set.
	defaultBody = 16 << 20
	maxLogin    = 64 << 10
)

// called is the body of a call. The other members continue a call that has returned input_required.
type called struct {
	Arguments      json.RawMessage `json:"arguments"`
	InputResponses json.RawMessage `json:"inputResponses"`
	RequestState   string          `json:"requestState"`
}

// capabilities are those of the page as a client: it shows forms.
var capabilities = json.RawMessage(`{"elicitation":{"form":{}}}`)

// call calls a tool as a client without a session does. The response is a fragment of HTML for the page, and the
// CallToolResult for other clients.
func (c *Console) call(w http.ResponseWriter, r *http.Request, s *settings, tool string) {
	var in called
	if !s.tryTools {
		fail(w, r, http.StatusForbidden, "calls are switched off here", "admin.tryTools of the configuration allows them")
		return
	}
	if !c.read(w, r, s, &in) {
		return
	}
	if in.Arguments != nil && in.Arguments[0] != '{' {
		fail(w, r, http.StatusBadRequest, "arguments: want a JSON object such as {\"path\": \".\"}", "")
		return
	}
	select {
	case c.calls <- struct{}{}:
		defer func() { <-c.calls }()
	default:
		w.Header().Set("Retry-After", "1")
		fail(w, r, http.StatusServiceUnavailable, fmt.Sprintf("%d calls of operators are in progress already", maxCalls), "")
		return
	}
	params := new(jsonscan.Object).Text("name", tool).Raw("arguments", wire.OrEmpty(in.Arguments))
	if in.RequestState != "" {
		params.Text("requestState", in.RequestState)
	}
	if in.InputResponses != nil {
		params.Raw("inputResponses", in.InputResponses)
	}
	client := &edge.Client{
		Principal: edge.PrincipalOf(r.Context()).Key(), Revision: wire.Rev2607, Capabilities: capabilities, Info: json.RawMessage(`{"name":"vmcp-admin","version":"1"}`),
	}
	resp, err := c.o.Call(r.Context(), edge.Request{Client: client, Method: wire.ToolsCall, Params: params.JSON(), Out: runs.Nobody{}})
	if err != nil {
		c.failed(w, r, tool, err)
		return
	}
	defer resp.Close()
	c.result(w, r, resp)
}

// decode decodes one JSON object. An unknown member is an error, since ignoring it would change the meaning.
func decode(text []byte, in any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(in)
	var other *json.UnmarshalTypeError
	switch {
	case errors.As(err, &other) && other.Field != "":
		return fmt.Errorf("%s: have a JSON %s, which is the wrong type", other.Field, other.Value)
	case errors.As(err, &other):
		return fmt.Errorf("want a JSON object such as {\"arguments\": {}}, have a JSON %s", other.Value)
	case err != nil:
		return fmt.Errorf("want a JSON object such as {\"arguments\": {}}: %s", strings.TrimPrefix(err.Error(), "json: "))
	case len(bytes.TrimSpace(text[d.InputOffset():])) != 0:
		return errors.New("want one JSON object, and nothing behind it")
	}
	return nil
}

// read decodes the JSON object of a request; if that fails it answers the request and returns false.
func (c *Console) read(w http.ResponseWriter, r *http.Request, s *settings, in any) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		fail(w, r, http.StatusUnsupportedMediaType, fmt.Sprintf("want Content-Type: application/json, have %q", r.Header.Get("Content-Type")), "")
		return false
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		fail(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("want at most %d bytes", large.Limit), "maxRequestBody of the configuration allows more")
		return false
	case err != nil:
		return false // the client has disconnected
	case len(strings.TrimSpace(string(text))) == 0:
		text = []byte("{}")
	}
	if err := decode(text, in); err != nil {
		fail(w, r, http.StatusBadRequest, err.Error(), "")
		return false
	}
	return true
}

// result answers with the result of a tool.
func (c *Console) result(w http.ResponseWriter, r *http.Request, resp *backends.Response) {
	select {
	case c.reads <- struct{}{}:
		defer func() { <-c.reads }()
	case <-r.Context().Done():
		return
	}
	text, err := resp.Bytes(maxResult)
	switch {
	case errors.Is(err, backends.ErrTooLarge):
		fail(w, r, http.StatusBadGateway, fmt.Sprintf("the result has more than %d MiB; the call was made", maxResult>>20), "a client of the endpoint has no such limit")
	case err != nil:
		fail(w, r, http.StatusBadGateway, "the result broke off: "+c.o.HideText(err.Error()), "")
	case wantsHTML(r):
		writeResult(w, text)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // the client may have disconnected
	}
}

// failed answers with the reason why a call has no result.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, tool string, err error) {
	if r.Context().Err() != nil {
		return
	}
	code, rpc := http.StatusBadGateway, wire.AsError(err)
	if refusal := edge.RefusalOf(err); refusal != nil {
		code = refusal.Status
		for name, values := range refusal.Header {
			w.Header()[name] = values
		}
	} else if rpc.Code == wire.InvalidParams {
		code = http.StatusBadRequest
		if t, known := c.o.Admin.Tool(tool); !known || t.Hidden {
			code = http.StatusNotFound
		}
	}
	fail(w, r, code, c.o.HideText(rpc.Message), "")
}

// answered is the body of an answer to a question of a run.
type answered struct {
	Key     string          `json:"key"`
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content"`
}

// answer answers a question of a kept run, as vmcp runs answer does.
func (c *Console) answer(w http.ResponseWriter, r *http.Request, s *settings, id string) {
	var in answered
	if !s.tryTools {
		fail(w, r, http.StatusForbidden, "answers are switched off here", "admin.tryTools of the configuration allows them")
		return
	}
	if !c.read(w, r, s, &in) {
		return
	}
	runs := c.o.Store()
	if runs == nil {
		fail(w, r, http.StatusServiceUnavailable, "the store of runs is not open yet", "")
		return
	}
	err := durable.Give(r.Context(), runs, id, durable.Answer{Key: in.Key, Action: in.Action, Content: in.Content})
	switch {
	case err == nil && wantsHTML(r):
		writeResult(w, json.RawMessage(`{"content":[{"type":"text","text":"The answer is stored; the run goes on."}]}`))
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, durable.ErrUnknown):
		fail(w, r, http.StatusNotFound, "no run "+id, "")
	case errors.Is(err, durable.ErrEnded), errors.Is(err, durable.ErrAnswered), errors.Is(err, durable.ErrLate), errors.Is(err, durable.ErrNoQuestion):
		fail(w, r, http.StatusConflict, err.Error(), "")
	case errors.As(err, new(*durable.Invalid)):
		fail(w, r, http.StatusBadRequest, c.o.HideText(err.Error()), "")
	default:
		fail(w, r, http.StatusServiceUnavailable, c.o.HideText(err.Error()), "")
	}
}
