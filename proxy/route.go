package proxy

import (
	"context"
	"encoding/json"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// A method serves one method of MCP.
type method struct {
	serve  func(*Proxy, context.Context, *exchange) (*backends.Response, error)
	legacy bool // exists in the revisions before 2026-07-28
	modern bool // exists in 2026-07-28
}

// nameMember is the member of a method's params that names what it is about; it
// travels in the Mcp-Name header too.
func nameMember(method string) string {
	switch method {
	case wire.ToolsCall, wire.PromptsGet:
		return "name"
	case wire.ResourcesRead:
		return "uri"
	}
	return ""
}

// methods is everything clients can ask for once they are known. initialize and
// subscriptions/listen belong to the edges.
var methods = map[string]method{
	wire.Discover:      {serve: (*Proxy).discover, modern: true},
	wire.Ping:          {serve: (*Proxy).ping, legacy: true},
	wire.ToolsList:     {serve: (*Proxy).toolsList, legacy: true, modern: true},
	wire.ToolsCall:     {serve: (*Proxy).toolsCall, legacy: true, modern: true},
	wire.PromptsList:   {serve: (*Proxy).promptsList, legacy: true, modern: true},
	wire.PromptsGet:    {serve: (*Proxy).promptsGet, legacy: true, modern: true},
	wire.ResourcesList: {serve: (*Proxy).resourcesList, legacy: true, modern: true},
	wire.TemplatesList: {serve: (*Proxy).templatesList, legacy: true, modern: true},
	wire.ResourcesRead: {serve: (*Proxy).resourcesRead, legacy: true, modern: true},
	wire.Complete:      {serve: (*Proxy).complete, legacy: true, modern: true},
	wire.SetLevel:      {serve: (*Proxy).setLevel, legacy: true},
	wire.Subscribe:     {serve: (*Proxy).subscribe, legacy: true},
	wire.Unsubscribe:   {serve: (*Proxy).unsubscribe, legacy: true},
	"tasks/get":        {serve: (*Proxy).task, legacy: true, modern: true},
	"tasks/update":     {serve: (*Proxy).task, legacy: true, modern: true},
	"tasks/cancel":     {serve: (*Proxy).task, legacy: true, modern: true},
	"tasks/result":     {serve: (*Proxy).task, legacy: true, modern: true},
	"tasks/list":       {serve: (*Proxy).task, legacy: true, modern: true},
}

// lookup finds a method for a client of this era.
func lookup(name string, modern bool) (method, error) {
	m, ok := methods[name]
	if !ok || modern && !m.modern || !modern && !m.legacy {
		return method{}, wire.Errorf(wire.MethodNotFound, "method not found: %s", name)
	}
	return m, nil
}

// serve is the one door for requests of clients: here they are counted, timed and logged.
func (p *Proxy) serve(ctx context.Context, x *exchange) (*backends.Response, error) {
	m, err := lookup(x.method, x.client.modern())
	if err != nil {
		return nil, err
	}
	done := p.metrics.start(x.method)
	ctx, end := p.requestSpan(ctx, x)
	resp, err := m.serve(p, ctx, x)
	end(err)
	done(err)
	return resp, err
}

func answer(result []byte) (*backends.Response, error) {
	return &backends.Response{Result: result}, nil
}

func (p *Proxy) ping(context.Context, *exchange) (*backends.Response, error) {
	return answer([]byte("{}"))
}

func (p *Proxy) discover(_ context.Context, x *exchange) (*backends.Response, error) {
	versions, _ := json.Marshal(wire.Supported)
	c := p.catalog.Load()
	capabilities := json.RawMessage(ourCapabilities)
	if c.extensions != nil {
		capabilities = wire.Set(capabilities, "extensions", c.extensions)
	}
	out := append([]byte(`{"supportedVersions":`), versions...)
	out = append(append(out, `,"capabilities":`...), capabilities...)
	if text := c.instructions; text != "" {
		out = append(append(out, `,"instructions":`...), wire.Quote(text)...)
	}
	return answer(pageStyle{serverInfo: c.serverInfo}.close(out))
}

// ourCapabilities is the same for clients of either era, whatever backends there are.
const ourCapabilities = `{"logging":{},"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}}`

func (p *Proxy) toolsList(_ context.Context, x *exchange) (*backends.Response, error) {
	return listPage(p.catalog.Load().tools, x)
}

func (p *Proxy) promptsList(_ context.Context, x *exchange) (*backends.Response, error) {
	return listPage(p.catalog.Load().prompts, x)
}

func (p *Proxy) resourcesList(_ context.Context, x *exchange) (*backends.Response, error) {
	return listPage(p.catalog.Load().resources, x)
}

func (p *Proxy) templatesList(_ context.Context, x *exchange) (*backends.Response, error) {
	return listPage(p.catalog.Load().templates, x)
}

func listPage(l *list, x *exchange) (*backends.Response, error) {
	cursor := wire.Get(x.params, "cursor")
	if cursor != nil && cursor[0] != '"' && cursor[0] != 'n' {
		return nil, wire.Errorf(wire.InvalidParams, "cursor: want a string")
	}
	page, ok := l.page(wire.Text(cursor), x.client.modern())
	if !ok {
		return nil, wire.Errorf(wire.InvalidParams, "cursor %s is not valid (any more): list again from the start", cursor)
	}
	return answer(page)
}

func (p *Proxy) toolsCall(ctx context.Context, x *exchange) (*backends.Response, error) {
	name := wire.Get(x.params, "name")
	if len(name) == 0 || name[0] != '"' {
		return nil, wire.Errorf(wire.InvalidParams, "params.name: want the name of a tool")
	}
	e := p.catalog.Load().tool(wire.Text(name))
	if e == nil {
		return nil, wire.Errorf(wire.InvalidParams, "unknown tool: %s", wire.Text(name))
	}
	if x.header != nil && x.client.modern() {
		if err := checkHeaders(e.headers, wire.Get(x.params, "arguments"), x.header); err != nil {
			return nil, err
		}
	}
	if e.script != nil {
		return p.callScript(ctx, x, e)
	}
	return p.relay(ctx, x, e)
}

func (p *Proxy) promptsGet(ctx context.Context, x *exchange) (*backends.Response, error) {
	e := p.catalog.Load().promptByName[wire.GetString(x.params, "name")]
	if e == nil {
		return nil, wire.Errorf(wire.InvalidParams, "unknown prompt: %s", wire.GetString(x.params, "name"))
	}
	return p.relay(ctx, x, e)
}

func (p *Proxy) resourcesRead(ctx context.Context, x *exchange) (*backends.Response, error) {
	uri := wire.GetString(x.params, "uri")
	e := p.catalog.Load().resource(uri)
	if e == nil {
		return nil, noResource(x.client, uri)
	}
	return p.relay(ctx, x, &entry{name: uri, own: uri, backend: e.backend})
}

func noResource(c *client, uri string) error {
	code := wire.ResourceNotFound
	if c.modern() {
		code = wire.InvalidParams
	}
	err := wire.Errorf(code, "resource not found: %s", uri)
	err.Data = wire.Set(nil, "uri", wire.Quote(uri))
	return err
}

// complete routes by what the argument belongs to: a prompt or a resource template.
func (p *Proxy) complete(ctx context.Context, x *exchange) (*backends.Response, error) {
	ref := wire.Get(x.params, "ref")
	c := p.catalog.Load()
	switch wire.GetString(ref, "type") {
	case "ref/prompt":
		e := c.promptByName[wire.GetString(ref, "name")]
		if e == nil {
			return nil, wire.Errorf(wire.InvalidParams, "unknown prompt: %s", wire.GetString(ref, "name"))
		}
		x.params = wire.Set(x.params, "ref", wire.Set(ref, "name", wire.Quote(e.own)))
		return p.relay(ctx, x, e)
	case "ref/resource":
		uri := wire.GetString(ref, "uri")
		e := c.templateByText[uri]
		if e == nil {
			e = c.resource(uri)
		}
		if e == nil {
			return nil, wire.Errorf(wire.InvalidParams, "unknown resource template: %s", uri)
		}
		return p.relay(ctx, x, e)
	}
	return nil, wire.Errorf(wire.InvalidParams, `params.ref.type: want "ref/prompt" or "ref/resource"`)
}

func (p *Proxy) setLevel(_ context.Context, x *exchange) (*backends.Response, error) {
	level := wire.GetString(x.params, "level")
	if severity(level) < 0 {
		return nil, wire.Errorf(wire.InvalidParams, "params.level: no log level %q; want debug, info, notice, warning, error, critical, alert or emergency", level)
	}
	x.client.session.setLevel(level)
	return answer([]byte("{}"))
}

// subscribe follows a resource where the session's calls are made: on a connection of
// its own, if it has one, else together with everybody else.
func (p *Proxy) subscribe(ctx context.Context, x *exchange) (*backends.Response, error) {
	uri, s := wire.GetString(x.params, "uri"), x.client.session
	e := p.catalog.Load().resource(uri)
	if e == nil {
		return nil, noResource(x.client, uri)
	}
	mine, err := e.backend.SubscribeFor(ctx, x.caller(), uri, true)
	switch {
	case err != nil:
		return nil, relayError(err)
	case mine:
		s.follow(uri, own)
	default:
		if err := p.subscriptions.add(ctx, uri, func() bool { return s.follow(uri, shared) }); err != nil {
			return nil, err
		}
	}
	return answer([]byte("{}"))
}

func (p *Proxy) unsubscribe(ctx context.Context, x *exchange) (*backends.Response, error) {
	uri := wire.GetString(x.params, "uri")
	switch x.client.session.unfollow(uri) {
	case shared:
		p.subscriptions.remove(ctx, uri)
	case own:
		if e := p.catalog.Load().resource(uri); e != nil {
			if _, err := e.backend.SubscribeFor(ctx, x.caller(), uri, false); err != nil {
				return nil, relayError(err)
			}
		}
	}
	return answer([]byte("{}"))
}

// task routes a message of the tasks extension to the backend that runs the task.
func (p *Proxy) task(ctx context.Context, x *exchange) (*backends.Response, error) {
	be := p.tasks.owner(wire.GetString(x.params, "taskId"), x.client)
	if be == nil {
		return nil, wire.Errorf(wire.InvalidParams, "unknown task: %s", wire.GetString(x.params, "taskId"))
	}
	return p.relay(ctx, x, &entry{backend: be})
}
