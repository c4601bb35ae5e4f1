//go:build !npm

package idp

import "testing"

func TestIdentityProvider(t *testing.T) {
	t.Skip("needs npm and, the first time, the network: go test -tags npm ./test/idp, as in .ci/run")
}
