package cluster

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/postgres"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// connections bounds the connections to the database for the cluster's tables; the store of runs has a pool of its own.
const connections = 10

// Of joins the cluster that cfg names: its database, schema, advertised address and heartbeat. ring holds the keys of
// cfg.
func Of(ctx context.Context, cfg *config.Config, ring *durable.Ring, log *slog.Logger) (*Members, error) {
	db, err := postgres.Open(ctx, postgres.Options{URL: cfg.SessionStorage.URL, Schema: cfg.SessionStorage.Schema, MaxConnections: connections})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	m, err := Join(ctx, Options{DB: db, Ring: ring, Address: cfg.Cluster.Advertise, Heartbeat: cfg.Cluster.Heartbeat.Std(), Log: log})
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return m, nil
}
