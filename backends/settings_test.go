package backends_test

import (
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
)

// TestFor: a backend's settings take precedence over the general ones, and these over the defaults;
// a breaker is kept while its configuration is the same.
func TestFor(t *testing.T) {
	breaker := &config.CircuitBreaker{Enabled: true, FailureThreshold: 3}
	cfg := &config.Config{Operational: config.Operational{
		Timeouts:        config.Timeouts{Default: config.Duration(time.Minute)},
		FailureHandling: config.FailureHandling{HealthCheckInterval: config.Duration(time.Hour), CircuitBreaker: breaker},
	}}
	general := backends.GeneralOf(cfg)
	old := backends.For(config.Backend{Name: "b", MaxSessions: 7}, general, nil)
	if old.Timeout != time.Minute || old.CheckInterval != time.Hour || old.CheckThreshold != 3 || old.MaxConnections != 64 || old.MaxSessions != 7 {
		t.Errorf("For = %+v", old)
	}
	if own := backends.For(config.Backend{Timeout: config.Duration(time.Second)}, general, old); own.Timeout != time.Second || own.Breaker != old.Breaker {
		t.Errorf("For = %+v, want a second and the breaker from before", own)
	}
	cfg.Operational.FailureHandling.CircuitBreaker = &config.CircuitBreaker{Enabled: true, FailureThreshold: 4}
	if other := backends.For(config.Backend{}, backends.GeneralOf(cfg), old); other.Breaker == old.Breaker {
		t.Error("another configuration has the breaker from before")
	}
	if none := backends.For(config.Backend{}, backends.GeneralOf(&config.Config{}), nil); none.Timeout != 30*time.Second || none.Breaker != nil {
		t.Errorf("of an empty configuration: %+v", none)
	}
}

func TestSameBut(t *testing.T) {
	a := config.Backend{Name: "b", Command: "x", Timeout: config.Duration(time.Second), Sessions: "shared", MaxConnections: 1}
	b := config.Backend{Name: "b", Command: "x"}
	if !backends.SameBut(a, b) {
		t.Error("other settings take another process")
	}
	if b.Args = []string{"y"}; backends.SameBut(a, b) {
		t.Error("another command does not take another process")
	}
}
