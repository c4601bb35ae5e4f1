// Command vmcp serves many MCP servers as one, with scripted tools over them.
package main

import (
	"os"

	_ "golang.org/x/crypto/x509roots/fallback" // an image without files has certificate authorities, too

	"github.com/vmcp-dev/vmcp/script/isolate"
)

func main() {
	isolate.ServeIfWorker() // a worker of isolated scripts is this program again
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
