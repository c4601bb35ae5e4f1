// Package notifier tells people of runs that need them, as a configuration says: with a request to a URL, or by a tool
// of a backend.
package notifier

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
	store "github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/notify"
	"github.com/vmcp-dev/vmcp/runs/seal"
)

// Options say what a notifier works with.
type Options struct {
	Log *slog.Logger
	// Backends are those whose tools are called.
	Backends func() []*backends.Backend
	// Spawn runs f on a goroutine; false when there are none any more.
	Spawn func(f func()) bool
}

// Notifier tells people of what is in the outbox of a store. Its methods are called one at a time.
type Notifier struct {
	o    Options
	of   *config.Notify     // nil before Use
	stop context.CancelFunc // nil: nobody is told
	done chan struct{}
}

// New makes a notifier that tells nobody.
func New(o Options) *Notifier { return &Notifier{o: o} }

// Close stops telling.
func (n *Notifier) Close() {
	if n.stop != nil {
		n.stop()
		<-n.done
		n.stop = nil
	}
}

// Use tells those of whom a configuration says so. ring signs what goes to a URL; nil: nothing does.
func (n *Notifier) Use(of config.Notify, s store.Store, ring *seal.Ring) {
	if n.of != nil && reflect.DeepEqual(*n.of, of) {
		return
	}
	n.Close()
	n.of, n.done = &of, make(chan struct{})
	o := notify.Options{Outbox: s, Changed: s.Changed, Log: n.o.Log}
	switch {
	case of.URL != "":
		o.Tell = notify.Webhook(of.URL, ring)
	case of.Tool != "":
		o.Tell = n.byTool(of.Tool)
	default:
		return
	}
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.Background())
	done := n.done
	if !n.o.Spawn(func() { defer close(done); notify.Run(ctx, o) }) {
		close(done)
	}
}

// byTool calls a tool of a backend, backend.tool, with the message as its arguments.
func (n *Notifier) byTool(origin string) func(context.Context, store.Event) error {
	name, tool, _ := strings.Cut(origin, ".")
	return func(ctx context.Context, e store.Event) error {
		all := n.o.Backends()
		i := slices.IndexFunc(all, func(b *backends.Backend) bool { return b.Name() == name })
		if i < 0 {
			return fmt.Errorf("there is no backend %q", name)
		}
		id, message := notify.Of(e)
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
			err = fmt.Errorf("%s said no", origin)
		}
		return err
	}
}

// maxResult bounds the result of a tool that is told of a run.
const maxResult = 1 << 20
