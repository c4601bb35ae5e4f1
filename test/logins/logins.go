// Package logins opens pools of credentials that share the logins in one database, as the replicas of an
// endpoint do, for tests.
package logins

import (
	"bytes"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/cluster"

	durablepkg "github.com/vmcp-dev/vmcp/script/durable"
)

// Replica returns a new pool over the tokens in the database at a URL, and its view of them.
func Replica(t testing.TB, url string) (*credentials.Pool, *credentials.Shared) {
	t.Helper()
	ring, err := durablepkg.NewSeal([]durablepkg.Key{{ID: "a", Secret: bytes.Repeat([]byte{'a'}, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := cluster.OpenTokens(t.Context(), &config.Config{SessionStorage: config.SessionStorage{URL: url}}, ring)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	pool, shared := credentials.NewPool(credentials.Options{}), credentials.Share(tokens)
	t.Cleanup(pool.Close)
	pool.Share(shared, tokens)
	if err := pool.SetStore(config.TokenStore{}); err != nil {
		t.Fatal(err)
	}
	return pool, shared
}
