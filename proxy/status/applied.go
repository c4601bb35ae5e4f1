package status

import (
	"sync"
	"time"
)

// Applied records which configuration is served, and why the last one was refused. The zero value is before the first.
// It is safe for concurrent use.
type Applied struct {
	mu      sync.Mutex
	config  Config    // guarded by mu
	attempt time.Time // guarded by mu
}

// Apply records that a configuration is served.
func (a *Applied) Apply(source, hash string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attempt = time.Now()
	a.config = Config{Source: source, Hash: hash, Generation: a.config.Generation + 1, AppliedAt: a.attempt.UTC()}
}

// Refuse records why a configuration was refused. The previous one is still served.
func (a *Applied) Refuse(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attempt, a.config.Error = time.Now(), why
}

// Config is the configuration that is served.
func (a *Applied) Config() Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config
}

// Attempt is when a configuration was last applied or refused.
func (a *Applied) Attempt() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.attempt
}
