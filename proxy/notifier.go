package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/runs"
	durablepkg "github.com/vmcp-dev/vmcp/script/durable"
)

// This part of the package delivers notifications about kept runs that need a person, as the configuration says: by a request
// to a URL, or by calling a tool of a backend.

// notifierOptions configure a Notifier.
type notifierOptions struct {
	Log *slog.Logger
	// Backends returns the backends whose tools may be called.
	Backends func() []*backends.Backend
	// Spawn runs f on a goroutine; false once the proxy is closing.
	Spawn func(f func()) bool
}

// notifier delivers the events in the outbox of a store. Its methods must not be called concurrently.
type notifier struct {
	o    notifierOptions
	of   *config.Notify     // nil before Use
	stop context.CancelFunc // nil: nothing is delivered
	done chan struct{}
}

// newNotifier makes a Notifier that delivers nothing until Use.
func newNotifier(o notifierOptions) *notifier { return &notifier{o: o} }

// Close stops delivering.
func (n *notifier) Close() {
	if n.stop != nil {
		n.stop()
		<-n.done
		n.stop = nil
	}
}

// Use delivers the events of s as the configuration says. ring signs requests to a URL; nil: they are not signed.
func (n *notifier) Use(of config.Notify, s durablepkg.Store, ring *durablepkg.Ring) {
	if n.of != nil && reflect.DeepEqual(*n.of, of) {
		return
	}
	n.Close()
	n.of, n.done = &of, make(chan struct{})
	o := durablepkg.NotifyOptions{Outbox: s, Changed: s.Changed, Log: n.o.Log}
	switch {
	case of.URL != "":
		o.Send = durablepkg.Webhook(of.URL, ring)
	case of.Tool != "":
		o.Send = n.byTool(of.Tool)
	default:
		return
	}
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.Background())
	done := n.done
	if !n.o.Spawn(func() { defer close(done); durablepkg.Notify(ctx, o) }) {
		close(done)
	}
}

// byTool delivers an event by calling a tool, named backend.tool, with the message as its arguments.
func (n *notifier) byTool(origin string) func(context.Context, durablepkg.Event) error {
	name, tool, _ := strings.Cut(origin, ".")
	return func(ctx context.Context, e durablepkg.Event) error {
		all := n.o.Backends()
		i := slices.IndexFunc(all, func(b *backends.Backend) bool { return b.Name() == name })
		if i < 0 {
			return fmt.Errorf("no backend %q", name)
		}
		id, message := durablepkg.Of(e)
		args, err := json.Marshal(message)
		if err != nil {
			return err
		}
		params := new(jsonscan.Object).Text("name", tool).Raw("arguments", args).Raw("_meta", new(jsonscan.Object).Text(runs.MetaKey, id).JSON()).JSON()
		resp, err := all[i].Call(ctx, &backends.Request{Method: wire.ToolsCall, Params: params})
		if err != nil {
			return err
		}
		defer resp.Close()
		result, err := resp.Bytes(maxResult)
		if err == nil && string(jsonscan.Get(result, "isError")) == "true" {
			err = fmt.Errorf("tool %s returned an error result", origin)
		}
		return err
	}
}

// maxResult bounds the result of such a tool, in bytes.
const maxResult = 1 << 20
