//go:build !npm

package editors

import "testing"

func TestLanguageServer(t *testing.T) {
	t.Skip("needs npm and, the first time, the network: go test -tags npm ./test/editors, as in .ci/run")
}
