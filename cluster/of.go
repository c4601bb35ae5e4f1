package cluster

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/postgres"
	"github.com/vmcp-dev/vmcp/runs/seal"
)

// connections bounds those to the database for what replicas share, beside those for runs.
const connections = 10

// Of joins the cluster of a configuration, whose ring is that of its keys.
func Of(ctx context.Context, cfg *config.Config, ring *seal.Ring, log *slog.Logger) (*Members, error) {
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
