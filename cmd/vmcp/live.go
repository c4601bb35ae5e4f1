package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/author"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/proxy"
)

// checkLive starts the backends of a configuration and returns the problems that then appear: backends that are not
// ready, and entries that clients do not get as offered. Their position is that of the backend in the configuration.
func (a *app) checkLive(ctx context.Context, cfg *config.Config) (diag.Problems, error) {
	names := map[string]diag.Pos{"": cfg.Place("")}
	for i := range cfg.Backends {
		names[cfg.Backends[i].Name] = cfg.Place(config.IndexPath("backends", i) + ".name")
	}
	e, err := a.openLoaded(ctx, cfg, nil, client.Options{})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	status, err := e.Status(ctx)
	if err != nil {
		return nil, err
	}
	problems := troubles(status, author.Time(cfg))
	for i := range problems {
		p := &problems[i]
		p.Code = cmp.Or(p.Code, "config")
		switch {
		case p.File != "":
		case p.Path != "":
			p.Pos = cfg.Place(p.Path)
		default:
			p.Pos = cmp.Or(names[p.Backend], names[""])
			p.Message = strings.TrimPrefix(p.Entry+": ", ": ") + p.Message
		}
	}
	return problems, nil
}

// troubles are the problems of a status, with a problem for each backend that should be ready and is not.
func troubles(status proxy.Status, limit time.Duration) (problems diag.Problems) {
	for _, b := range status.Backends {
		if b.State != "ready" && b.State != "disabled" {
			reason := strings.TrimPrefix(cmp.Or(b.Error, fmt.Sprintf("no answer within %s", limit)), "backend "+b.Name+": ")
			problems = append(problems, diag.Problem{Backend: b.Name, Message: fmt.Sprintf("backend %s is %s: %s", b.Name, b.State, reason)})
		}
	}
	return append(problems, status.Problems...)
}
