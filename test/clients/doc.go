// Package clients tests `vmcp serve` with popular clients: each lists and
// calls the tools of servers directly and through the proxy, over Streamable HTTP and over
// standard input and output, and has to get the same. docs/clients.md has the results.
//
// It needs npm, Chromium for Playwright's server, and the network the first time:
//
//	go test -tags npm ./test/clients [-update]
package clients
