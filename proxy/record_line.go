package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/proxy/audit"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// Asker sets the principal and the source of an event.
func (r *recorder) Asker(ctx context.Context, e *audit.Event, c *edge.Client) {
	if req := requestIn(ctx); req != nil {
		e.Source = r.source(req)
		e.Target.Endpoint, e.Extra.Transport = "/mcp", "streamable-http"
	} else {
		e.Source = audit.Source{Type: "local", Value: "stdio"}
		e.Target.Endpoint, e.Extra.Transport = "stdio", "stdio"
	}
	if s := c.Session; s != nil && len(s.ID) >= 6 {
		e.Extra.Session = s.ID[:6]
	}
	who(e, edge.PrincipalOf(ctx))
	if len(c.Info) > 0 {
		e.Subjects.ClientName = display.Bytes(jsonscan.GetString(c.Info, "name"), maxName)
		e.Subjects.ClientVersion = display.Bytes(jsonscan.GetString(c.Info, "version"), maxName)
	}
}

func who(e *audit.Event, p *auth.Principal) {
	if p == nil {
		e.Subjects.UserID = "anonymous"
		return
	}
	e.Subjects.UserID, e.Subjects.Issuer = display.Bytes(p.Subject, maxName), display.Bytes(p.Issuer, maxName)
	for _, claim := range [...]string{"name", "preferred_username", "email"} {
		if text, ok := p.Claims[claim].(string); ok && text != "" {
			e.Subjects.User = display.Bytes(text, maxName)
			break
		}
	}
}

// source is the address of the client, behind trusted proxies.
func (r *recorder) source(req *http.Request) audit.Source {
	return audit.Source{Type: "network", Value: r.o.Address(req), UserAgent: display.Bytes(req.UserAgent(), maxName)}
}

// requestKey is the context key of the *http.Request.
type requestKey struct{}

// Within is the context for serving an HTTP request.
func (r *recorder) Within(ctx context.Context, req *http.Request) context.Context {
	if r.log.Load() == nil {
		return ctx
	}
	return context.WithValue(ctx, requestKey{}, req)
}

// requestIn is the HTTP request of ctx; nil on stdio.
func requestIn(ctx context.Context) *http.Request {
	r, _ := ctx.Value(requestKey{}).(*http.Request)
	return r
}

// Request is an event's data about a call's params and arguments, as far as the configuration wants them.
func (r *recorder) Request(ctx context.Context, l *log, params, arguments json.RawMessage) json.RawMessage {
	switch {
	case l.cfg.IncludeRequestData:
		return jsonscan.Set(nil, "request", r.data(ctx, params, l.cfg.MaxDataSize))
	case arguments == nil, l.cfg.Arguments == "none", l.cfg.Arguments == "":
		return nil
	case l.cfg.Arguments == "hash":
		sum := sha256.Sum256(jsonscan.Compact(arguments))
		return jsonscan.Set(nil, "arguments", jsonscan.Quote("sha256:"+hex.EncodeToString(sum[:])))
	}
	names, size := []string{}, 0
	jsonscan.Each(arguments, func(key, _ []byte) bool {
		name := display.Bytes(r.o.Secrets.Text(string(key)), maxName)
		size += len(name)
		names = append(names, name)
		return size < l.cfg.MaxDataSize
	})
	list, _ := json.Marshal(names) // cannot fail: strings
	return jsonscan.Set(nil, "arguments", list)
}

// Respond adds the result of a call to its event, if the configuration wants it.
func (r *recorder) Respond(ctx context.Context, l *log, e *audit.Event, result []byte) {
	if l.Responses() && result != nil {
		e.Data = jsonscan.Set(e.Data, "response", r.data(ctx, result, l.cfg.MaxDataSize))
	}
}

// data is a JSON value without the secrets of the configuration. A value of more than most bytes is replaced by the
// beginning of its text.
func (r *recorder) data(ctx context.Context, value []byte, most int) json.RawMessage {
	fits, all := len(value) <= most, len(value) <= most+margin
	value = value[:min(len(value), most+margin)]
	if req := requestIn(ctx); req != nil { // a client's own credential is not recorded either
		if token := auth.TokenOf(req); len(token) >= secret.Shortest {
			value = bytes.ReplaceAll(value, []byte(token), []byte(secret.Mask))
		}
	}
	if fits && jsonscan.Valid(value) {
		return jsonscan.Compact(r.o.Secrets.JSON(value))
	}
	var ready string
	if all {
		ready = r.o.Secrets.Text(string(value))
	} else {
		ready, _ = r.o.Secrets.Pieces(string(value)) // a secret across the end is cut out, too
	}
	return jsonscan.Quote(strings.ToValidUTF8(display.Bytes(ready, most), "") + display.Mark)
}

const (
	// margin is the number of bytes behind the recorded ones that are searched for secrets.
	margin = 16 << 10
	// maxHead bounds the beginning of a streamed result that is kept for the audit, in bytes.
	maxHead = 64 << 10
)
