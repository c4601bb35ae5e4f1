package proxy

import (
	"context"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/cluster"
	"github.com/vmcp-dev/vmcp/proxy/edge"

	"github.com/vmcp-dev/vmcp/proxy/operate"
	"github.com/vmcp-dev/vmcp/proxy/runs"
)

// A method serves one method of MCP: a call by its callable, any other by serve.
type method struct {
	serve func(*Proxy, context.Context, *exchange) (*backends.Response, error)
	callable
}

// methods are the methods for clients that were introduced by initialize or by their _meta. initialize itself is served
// by package edge.
var methods = map[string]method{
	wire.Discover:      {serve: (*Proxy).discover},
	wire.Ping:          {serve: (*Proxy).ping},
	wire.ToolsList:     {serve: (*Proxy).list},
	wire.ToolsCall:     {callable: callable{(*Proxy).toolOf, (*Proxy).toolsCall}},
	wire.PromptsList:   {serve: (*Proxy).list},
	wire.PromptsGet:    {callable: callable{(*Proxy).promptOf, (*Proxy).relay}},
	wire.ResourcesList: {serve: (*Proxy).list},
	wire.TemplatesList: {serve: (*Proxy).list},
	wire.ResourcesRead: {callable: callable{(*Proxy).resourceOf, (*Proxy).resourcesRead}},
	wire.Complete:      {callable: callable{(*Proxy).completed, (*Proxy).complete}},
	wire.Listen:        {serve: (*Proxy).listen},
	wire.SetLevel:      {serve: (*Proxy).setLevel},
	wire.Subscribe:     {callable: callable{(*Proxy).resourceOf, (*Proxy).subscribe}},
	wire.Unsubscribe:   {serve: (*Proxy).unsubscribe},
	wire.TasksGet:      {callable: taskMethods},
	wire.TasksUpdate:   {callable: taskMethods},
	wire.TasksCancel:   {callable: taskMethods},
	wire.TasksResult:   {callable: taskMethods},
	wire.TasksList:     {callable: taskMethods},
}

var taskMethods = callable{(*Proxy).taskOf, (*Proxy).relay}

// Admit implements edge.Handler.
func (p *Proxy) Admit(ctx context.Context, r edge.Request, do func(context.Context) error) error {
	return p.admit(ctx, requestOf(r.Client, r.Method, r.Params), do)
}

// Serve implements edge.Handler.
func (p *Proxy) Serve(ctx context.Context, r edge.Request) (*backends.Response, error) {
	return p.serve(ctx, newExchange(p, r))
}

// serve passes a request of a client through the door. Its errors are for the client.
func (p *Proxy) serve(ctx context.Context, x *exchange) (*backends.Response, error) {
	m, ok := methods[x.method]
	if x.who = p.whoIn(ctx, x); x.who != nil && x.client.Session != nil {
		peerOf(x.client.Session).principal.Store(edge.PrincipalOf(ctx))
	}
	var resp *backends.Response
	var err error
	if ok && m.find != nil && wire.MethodOf(x.method).Exists(x.client.Modern()) {
		resp, err = p.call(ctx, x, m.callable)
	} else {
		resp, err = p.serveOther(ctx, x, m)
	}
	switch {
	case err == nil:
		return resp, nil
	case ctx.Err() == context.Canceled:
		return resp, edge.ErrCancelled // regardless of what failed because of the cancellation
	}
	return resp, p.hidden(edge.ClientError(err))
}

// serveOther serves a request that is not a call.
func (p *Proxy) serveOther(ctx context.Context, x *exchange, m method) (resp *backends.Response, err error) {
	err = p.admit(ctx, requestOf(x.client, x.method, x.params), func(ctx context.Context) (err error) {
		switch {
		case m.serve == nil, !wire.MethodOf(x.method).Exists(x.client.Modern()):
			return wire.Errorf(wire.MethodNotFound, "method not found: %s", x.method)
		case x.invalid != nil:
			return x.invalid
		}
		resp, err = m.serve(p, ctx, x)
		return err
	})
	return resp, err
}

// hidden replaces the secrets of the configuration in an error for a client; a backend may have quoted them.
func (p *Proxy) hidden(err error) error {
	if ours := edge.RefusalOf(err); ours != nil {
		return ours
	}
	clean := *wire.AsError(err)
	clean.Message, clean.Data, clean.Raw = p.secrets.Text(clean.Message), p.secrets.JSON(clean.Data), p.secrets.JSON(clean.Raw)
	return &clean
}

func answer(result []byte) (*backends.Response, error) {
	return &backends.Response{Result: result}, nil
}

func (p *Proxy) ping(context.Context, *exchange) (*backends.Response, error) {
	return answer([]byte("{}"))
}

func (p *Proxy) discover(_ context.Context, x *exchange) (*backends.Response, error) {
	return answer(x.view(p.catalog.Load()).DiscoverResult())
}

// list serves a page of a list.
func (p *Proxy) list(ctx context.Context, x *exchange) (*backends.Response, error) {
	p.awaitStart(ctx, x.client.Profile)
	read := func(string) {}
	if s := x.client.Session; s != nil {
		read = p.subscriptions.Reading(s)
	}
	c := p.currentCatalog(ctx, x.client)
	cursor := jsonscan.Get(x.params, "cursor")
	if cursor != nil && cursor[0] != '"' && cursor[0] != 'n' {
		return nil, wire.Errorf(wire.InvalidParams, "cursor: want a string")
	}
	page, ok := x.view(c).Page(x.method, jsonscan.Text(cursor), x.client.Modern())
	if !ok {
		return nil, wire.Errorf(wire.InvalidParams, "cursor %s is not valid, or no longer: list again from the start", cursor)
	}
	if cursor == nil {
		read(x.method)
	}
	return answer(page)
}

// toolOf finds the tool that a client calls.
func (p *Proxy) toolOf(ctx context.Context, x *exchange) (*catalog.Entry, error) {
	name := x.Get(memberName)
	if len(name) == 0 || name[0] != '"' {
		return nil, wire.Errorf(wire.InvalidParams, "params.name: want the name of a tool")
	}
	e, err := p.clientTool(ctx, x, jsonscan.Text(name))
	if err != nil && x.returns() { // it may have begun a run that this request resumes
		return catalog.Gone(jsonscan.Text(name)), nil
	}
	if err == nil && x.header != nil && x.client.Modern() {
		err = e.CheckHeaders(x.Get(arguments), x.header)
	}
	return e, err
}

func (p *Proxy) toolsCall(ctx context.Context, x *exchange, e *catalog.Entry) (*backends.Response, error) {
	if e.Script == nil {
		return p.relay(ctx, x, e)
	}
	if err := x.refuseTask(e); err != nil {
		return nil, err
	}
	return p.callScript(ctx, x, e)
}

// refuseTask refuses to run a scripted tool as a task for a client to which initialize declared tasks; for other
// clients the parameter is ignored (2025-11-25, basic/utilities/tasks).
func (x *exchange) refuseTask(e *catalog.Entry) error {
	if s := x.client.Session; s == nil || !peerOf(s).tasks || jsonscan.Get(x.params, "task") == nil {
		return nil
	}
	return wire.Errorf(wire.MethodNotFound, "tool %s cannot run as a task: call it without task", e.Name)
}

func (p *Proxy) promptOf(ctx context.Context, x *exchange) (*catalog.Entry, error) {
	return p.clientPrompt(ctx, x, jsonscan.Text(x.Get(memberName)))
}

func (p *Proxy) resourceOf(ctx context.Context, x *exchange) (*catalog.Entry, error) {
	uri := jsonscan.Text(x.Get(uri))
	e, err := p.clientResource(ctx, x, uri)
	if e == nil && err == nil {
		err = noResource(x.client, uri)
	}
	return e, err
}

// resourcesRead serves the proxy's own resources, and relays the others.
func (p *Proxy) resourcesRead(ctx context.Context, x *exchange, e *catalog.Entry) (*backends.Response, error) {
	if e.Own == catalog.NotOwn {
		return p.relay(ctx, x, e)
	}
	v := x.view(p.catalogOf(x.client))
	return answer(v.Contents(e, p.secrets.Text(operate.ResourceText(v, e, p.backends.All())), x.client.Modern()))
}

func noResource(c *edge.Client, uri string) error {
	code := wire.ResourceNotFound
	if c.Modern() {
		code = wire.InvalidParams
	}
	err := wire.Errorf(code, "resource not found: %s", uri)
	err.Data = new(jsonscan.Object).Text("uri", uri).JSON()
	return err
}

// completed finds the prompt or the resource template of which an argument is completed.
func (p *Proxy) completed(ctx context.Context, x *exchange) (*catalog.Entry, error) {
	ref := jsonscan.Get(x.params, "ref")
	switch jsonscan.GetString(ref, "type") {
	case "ref/prompt":
		return p.clientPrompt(ctx, x, jsonscan.GetString(ref, "name"))
	case "ref/resource":
		uri := jsonscan.GetString(ref, "uri")
		e, err := p.entryFor(ctx, x, catalog.Template(uri))
		if e == nil && err == nil {
			err = wire.Errorf(wire.InvalidParams, "unknown resource template: %s", uri)
		}
		return e, err
	}
	return nil, wire.Errorf(wire.InvalidParams, `params.ref.type: want "ref/prompt" or "ref/resource"`)
}

// complete relays a completion, with the backend's own name of the prompt or template.
func (p *Proxy) complete(ctx context.Context, x *exchange, e *catalog.Entry) (*backends.Response, error) {
	if e.Own != catalog.NotOwn { // it has no arguments
		return answer([]byte(`{"completion":{"values":[]}}`))
	}
	ref := jsonscan.Get(x.params, "ref")
	member := "name"
	if jsonscan.GetString(ref, "type") == "ref/resource" {
		member = "uri"
	}
	if e.Original != jsonscan.GetString(ref, member) {
		x.params = jsonscan.Set(x.params, "ref", jsonscan.Set(ref, member, jsonscan.Quote(e.Original)))
	}
	return p.relay(ctx, x, e)
}

func (p *Proxy) setLevel(ctx context.Context, x *exchange) (*backends.Response, error) {
	level := jsonscan.GetString(x.params, "level")
	if wire.Severity(level) < 0 {
		return nil, wire.Errorf(wire.InvalidParams, "params.level: no log level %q; want debug, info, notice, warning, error, critical, alert or emergency", level)
	}
	x.client.Session.SetLevel(level)
	p.changeState(ctx, x.client.Session, func(s *cluster.State) { s.Level = level })
	return answer([]byte("{}"))
}

func (p *Proxy) subscribe(ctx context.Context, x *exchange, e *catalog.Entry) (*backends.Response, error) {
	err := p.subscriptions.Subscribe(ctx, x.client.Session, x.callerIn(ctx), e, jsonscan.Text(x.Get(uri)))
	if err != nil {
		return nil, err
	}
	p.saveSubscriptions(ctx, x.client.Session)
	return answer([]byte("{}"))
}

func (p *Proxy) unsubscribe(ctx context.Context, x *exchange) (*backends.Response, error) {
	err := p.subscriptions.Unsubscribe(ctx, x.client.Session, x.callerIn(ctx), jsonscan.Text(x.Get(uri)))
	if err != nil {
		return nil, err
	}
	p.saveSubscriptions(ctx, x.client.Session)
	return answer([]byte("{}"))
}

// listen serves subscriptions/listen until ctx ends. It waits until the backends have started, so that the catalog is
// complete.
func (p *Proxy) listen(ctx context.Context, x *exchange) (*backends.Response, error) {
	filter := jsonscan.Get(x.params, "notifications")
	if jsonscan.Get(filter, "resourceSubscriptions") != nil {
		p.awaitStart(ctx, x.client.Profile)
	}
	principal := edge.PrincipalOf(ctx)
	view := func() *catalog.View {
		return p.rules.Load().Who(principal, x.client.Profile).View(p.catalog.Load(), x.client.Profile)
	}
	if err := p.subscriptions.Listen(ctx, x.id, x.out, filter, view); err != nil {
		return nil, err
	}
	meta := new(jsonscan.Object).Raw(wire.MetaSubscriptionID, x.id).JSON()
	return answer(new(jsonscan.Object).Text("resultType", "complete").Raw("_meta", meta).JSON())
}

// taskOf finds the tool, and so the backend, of a client's task.
func (p *Proxy) taskOf(ctx context.Context, x *exchange) (*catalog.Entry, error) {
	id := jsonscan.GetString(x.params, "taskId")
	tool, ok, err := p.tasks.Tool(ctx, id, x.client, p.catalog.Load())
	switch {
	case err != nil:
		p.log.Warn("a task could not be read from the store", "err", err)
		return nil, runs.StoreAway("the store that may have the task does not answer; send the request again later")
	case !ok:
		return nil, unknownTask(x)
	}
	x.task = tool
	return &catalog.Entry{Name: id, Original: id, Backend: tool.Backend}, nil
}

func unknownTask(x *exchange) error {
	return wire.Errorf(wire.InvalidParams, "unknown task: %s", jsonscan.GetString(x.params, "taskId"))
}
