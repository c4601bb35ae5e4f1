// Package interop tests `vmcp serve` with independent peers: the
// official npm servers as backends, and the clients of the Go SDK and of the npm TypeScript
// SDK. It needs npm, and the network the first time: go test -tags npm.
package interop
