//go:build !npm

package clients

import "testing"

func TestClients(t *testing.T) {
	t.Skip("needs npm and, the first time, the network: go test -tags npm ./test/clients, as in .ci/run")
}
