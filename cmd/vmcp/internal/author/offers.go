package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// This part of the package asks the backends of a configuration for what they offer, for a lock file.

const (
	settleTime = 15 * time.Second
	// fetchTime is settleTime where a command may have to fetch a server first.
	fetchTime = 2 * time.Minute
)

// Time is how long a command waits for the backends of a configuration before it goes on without those that are missing.
func Time(cfg *config.Config) time.Duration {
	for i := range cfg.Backends {
		if b := &cfg.Backends[i]; !b.Disabled && backends.Installs(b.Command) {
			return fetchTime
		}
	}
	return settleTime
}

// OffersOptions say how long and as whom backends are asked.
type OffersOptions struct {
	Log     *slog.Logger
	Secrets *secret.Redactor // of the configuration; none of them may be in the lock
	Client  json.RawMessage  // the clientInfo for backends
	Limit   time.Duration    // for all of them together
	// Waiting is called with the limit before backends are waited for, and with a function that returns those that are
	// missing; it may be nil. The function that it returns is called when the wait has ended.
	Waiting func(limit time.Duration, missing func() []string) (stop func())
}

// Gather connects to all backends of a configuration and returns what they offer. One
// that does not answer, or not completely, is an error; all such errors are returned together with
// what the others offer.
func Gather(ctx context.Context, cfg *config.Config, o OffersOptions) (*lock.File, error) {
	changed := make(chan struct{}, 1)
	set := backends.NewSet(backends.Options{Log: o.Log, Secrets: o.Secrets, ClientInfo: o.Client, Changed: func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}})
	defer set.Close()
	if err := set.Apply(cfg); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	if o.Waiting != nil {
		defer o.Waiting(o.Limit, func() []string { return connecting(set) })()
	}
	if err := awaitBackends(ctx, set, changed); err != nil {
		return nil, err
	}
	found := lock.New()
	var problems []error
	for _, be := range set.All() {
		if err := addOffer(found, be, o); err != nil {
			problems = append(problems, err)
		}
	}
	return found, errors.Join(problems...)
}

// awaitBackends waits until every backend has answered or failed, or the limit is reached.
func awaitBackends(ctx context.Context, set *backends.Set, changed <-chan struct{}) error {
	for {
		if len(connecting(set)) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil // addOffer reports those that are missing
			}
			return ctx.Err()
		}
	}
}

// connecting are the names of the backends that have neither answered nor failed yet.
func connecting(set *backends.Set) (names []string) {
	for _, be := range set.All() {
		if state, _ := be.Snapshot(); state.Status == backends.Connecting {
			names = append(names, be.Name())
		}
	}
	return names
}

// addOffer adds what a backend offers.
func addOffer(f *lock.File, be *backends.Backend, o OffersOptions) error {
	state, offer := be.Snapshot()
	switch {
	case state.Status == backends.Disabled:
		return nil
	case state.Status != backends.Ready && state.Err != nil:
		return fmt.Errorf("backend %s: %s", be.Name(), strings.TrimPrefix(state.Err.Error(), "backend "+be.Name()+": "))
	case state.Status != backends.Ready:
		return fmt.Errorf("backend %s: no answer within %s", be.Name(), o.Limit)
	case len(offer.Incomplete()) > 0:
		return fmt.Errorf("backend %s: %s: the list is not complete", be.Name(), strings.Join(offer.Incomplete(), ", "))
	}
	f.Backends[be.Name()] = lock.Backend{Instructions: offer.Instructions, Revision: offer.Revision, Server: lock.Server(offer.ServerInfo)}
	var problems []error
	for _, list := range []struct {
		kind  lock.Kind
		items []backends.Item
	}{{lock.Tool, offer.Tools}, {lock.Prompt, offer.Prompts}, {lock.Resource, offer.Resources}, {lock.Template, offer.Templates}} {
		for _, item := range list.items {
			if item.Name == "" {
				continue // a script cannot call it, and clients are not offered it
			}
			problems = append(problems, f.Add(lock.Name{Kind: list.kind, Backend: be.Name(), Own: item.Name}, item.Raw))
		}
	}
	return errors.Join(append(problems, o.leak(f, be.Name()))...)
}

// leak returns an error for a definition that contains a secret of the configuration: the lock is for Git.
func (o OffersOptions) leak(f *lock.File, backend string) error {
	for n, e := range f.Entries {
		if text := string(e.Definition); n.Backend == backend && o.Secrets.Text(text) != text {
			return fmt.Errorf("%s: its definition holds a secret of the configuration, and is not written", n)
		}
	}
	b := f.Backends[backend]
	if text := b.Instructions + b.Server + b.Revision; o.Secrets.Text(text) != text {
		return fmt.Errorf("backend %s: its instructions or its name hold a secret of the configuration, and is not written", backend)
	}
	return nil
}
