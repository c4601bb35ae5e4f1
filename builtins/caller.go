package builtins

import (
	"context"
	"encoding/json"
	"fmt"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// Caller is the principal that a run is executed for. It has no secrets: a token is not part of it.
type Caller struct {
	Subject string   `json:"subject"`
	Issuer  string   `json:"issuer"` // of the credential; "" without one
	Groups  []string `json:"groups"`
	Scopes  []string `json:"scopes"`
	Client  string   `json:"client"` // the OAuth client that the token was issued to
}

// Anonymous is the subject of a caller without a credential.
const Anonymous = "anonymous"

// KnowsCaller is a Host that knows the caller of its run. With other hosts the caller is anonymous.
type KnowsCaller interface {
	Caller(ctx context.Context) (Caller, error)
}

// CallerOf returns the caller of a host's run.
func CallerOf(ctx context.Context, h Host) (c Caller, err error) {
	if known, ok := h.(KnowsCaller); ok {
		if c, err = known.Caller(ctx); err != nil {
			return Caller{}, err
		}
	}
	if c.Subject == "" {
		c = Caller{Subject: Anonymous}
	}
	c.Groups, c.Scopes = append([]string{}, c.Groups...), append([]string{}, c.Scopes...) // never null
	return c, nil
}

// caller implements caller().
func caller(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs); err != nil {
		return nil, err
	}
	host, err := hostOf(t)
	if err != nil {
		return nil, fmt.Errorf("caller: %w", err)
	}
	e := script.Effect{Kind: "caller", Instant: true, Repeatable: true}
	raw, err := script.RunOf(t).Do(t, e, func(ctx context.Context) (json.RawMessage, error) {
		c, err := CallerOf(ctx, host)
		if err != nil {
			return nil, err
		}
		return json.Marshal(c)
	})
	if err != nil {
		return nil, err
	}
	return script.DecodeIn(t, raw, script.RunOf(t).Limits().Depth)
}
