// Fetch installs the downloads of the suites under test/: the npm packages of
// their lock files and the SDK's conformance server and client. Installed ones are not changed.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/vmcp-dev/vmcp/test/rig"
)

// manifests are the folders with a package-lock.json beside rig's own.
var manifests = []string{"test/clients/npm", "test/editors/npm", "test/idp/npm"}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := fetch(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func fetch(ctx context.Context) error {
	if _, err := rig.Install(ctx); err != nil {
		return err
	}
	for _, dir := range manifests {
		if _, err := rig.InstallFrom(ctx, os.DirFS(dir)); err != nil {
			return err
		}
	}
	if _, err := rig.FixtureClient(ctx); err != nil {
		return err
	}
	_, err := rig.Fixture(ctx)
	return err
}
