package backends

import (
	"cmp"
	"reflect"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"
	"github.com/vmcp-dev/vmcp/config"
)

// This part of the package has the settings of a backend that can be changed while it runs: those that
// concern the proxy alone, and neither the process nor the connections.

const (
	defaultTimeout        = 30 * time.Second
	defaultCheckInterval  = 30 * time.Second
	defaultCheckThreshold = 3
	defaultMaxConnections = 64
	// defaultMaxSessions is the default number of client sessions.
	defaultMaxSessions = 10_000
)

// Settings are those of one backend. They are immutable.
type Settings struct {
	Timeout        time.Duration
	CheckInterval  time.Duration
	CheckThreshold int
	Breaker        *endpoint.Breaker
	circuit        *config.CircuitBreaker // the configuration of Breaker

	Sessions                    string // auto, shared or exclusive
	MaxConnections, MaxSessions int
}

// General are the settings of all backends.
type General struct {
	timeout  time.Duration
	failures config.FailureHandling
}

// GeneralOf returns the general settings of a configuration.
func GeneralOf(cfg *config.Config) General {
	return General{cmp.Or(cfg.Operational.Timeouts.Default.Std(), defaultTimeout), cfg.Operational.FailureHandling}
}

// For returns the settings of a backend. The breaker of old, which may be nil, is kept with its
// state if its configuration is the same.
func For(cfg config.Backend, g General, old *Settings) *Settings {
	s := &Settings{
		Timeout:        orDefault(cfg.Timeout.Std(), g.timeout),
		CheckInterval:  orDefault(g.failures.HealthCheckInterval.Std(), defaultCheckInterval),
		CheckThreshold: orDefault(g.failures.UnhealthyThreshold, defaultCheckThreshold),
		Sessions:       cfg.Sessions,
		MaxConnections: orDefault(cfg.MaxConnections, defaultMaxConnections),
		MaxSessions:    orDefault(cfg.MaxSessions, defaultMaxSessions),
		circuit:        g.failures.CircuitBreaker,
	}
	if old != nil && reflect.DeepEqual(old.circuit, s.circuit) {
		s.Breaker = old.Breaker
	} else {
		s.Breaker = endpoint.NewBreaker(s.circuit)
	}
	return s
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// SameBut reports whether two configurations of a backend differ at most in their settings, headers and
// trusted certificates: any other difference needs another process or connection.
func SameBut(a, b config.Backend) bool {
	return reflect.DeepEqual(without(a), without(b))
}

func without(cfg config.Backend) config.Backend {
	cfg.Timeout, cfg.Sessions, cfg.MaxConnections, cfg.MaxSessions, cfg.Headers = 0, "", 0, 0, nil
	if cfg.TLS.CAText != "" {
		cfg.TLS.CAText = "certificates"
	}
	return cfg
}
