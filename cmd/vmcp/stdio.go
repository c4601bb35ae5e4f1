package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/proxy/auth"
)

// serveStdio serves the client on standard input and output until its input or the context
// ends and its pending calls are done, or until its token is not valid any more.
func (a *app) serveStdio(s *served) error {
	if err := s.verify(s.ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(s.ctx))
	defer cancel(nil)
	drained := func() { cancel(nil) }
	context.AfterFunc(s.ctx, func() {
		a.say("stopping; interrupt again to stop at once")
		s.proxy.Drain()
		late := time.NewTimer(s.shutdown.Load().DrainTime.Std())
		defer late.Stop()
		select {
		case <-late.C:
			drained()
		case <-ctx.Done():
		}
	})
	s.work.Go(func() { s.keepVerifying(ctx, cancel) })
	in := &watchedInput{in: a.in, ended: func() { time.AfterFunc(s.shutdown.Load().DrainTime.Std(), drained) }}
	if err := s.proxy.ServeStdio(ctx, in, a.out); err != nil && s.ctx.Err() == nil {
		return fmt.Errorf("serve standard input: %w", err)
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// verifyEvery is the interval at which the client's token is verified: a revoked token stops
// working within it.
const verifyEvery = time.Second

// keepVerifying ends the service if the token of the client has expired or was revoked, or if it
// has none and a later configuration requires one.
func (s *served) keepVerifying(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(verifyEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := s.verify(ctx)
		var refusal *auth.Refusal
		if errors.As(err, &refusal) && refusal.Status != http.StatusServiceUnavailable {
			end(err)
			return
		}
	}
}

// verify verifies the token in VMCP_TOKEN, which is that of the client that started this program.
func (s *served) verify(ctx context.Context) error {
	err := s.proxy.Verify(ctx, cli.Environment())
	if err == nil {
		return nil
	}
	var refusal *auth.Refusal
	if errors.As(err, &refusal) && refusal.NoToken {
		return cli.WithHint(
			fmt.Errorf("serve standard input: %w, and there is none on standard input", err),
			"use a configuration whose incomingAuth accepts tokens or is anonymous, or connect the client to the endpoint over TLS",
		)
	}
	return cli.WithHint(
		fmt.Errorf("serve standard input: VMCP_TOKEN: %w", err),
		"set VMCP_TOKEN to a token of incomingAuth in the environment of the client's server entry",
	)
}

// watchedInput reports when its end was read.
type watchedInput struct {
	in    io.Reader
	ended func()
}

func (w *watchedInput) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	if err != nil && w.ended != nil {
		w.ended()
		w.ended = nil
	}
	return n, err
}
