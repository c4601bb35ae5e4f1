// Command image builds the container image of vmcp, without a container engine:
//
//	go -C deploy/image run . --output dist/image --tag registry.example.com/vmcp:1.2.0
//
// It cross-compiles cmd/vmcp for linux/amd64 and linux/arm64 and writes an OCI image layout
// of two images with one layer each, whose only file is /vmcp. The binary is static and includes
// the root certificates of public authorities. All times are fixed: the same sources,
// tag and Go release give the same digest, on every machine and in every folder.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

// run builds and writes the image, and prints its digest.
func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	output := flags.String("output", "", "write the OCI image layout to this `folder`, which is made, or emptied if a layout is in it")
	tarball := flags.String("tarball", "", "write the layout to this tar `file`, too, for docker load and ctr images import")
	tag := flags.String("tag", "localhost/vmcp:dev", "the image's `name`; its tag is what vmcp version says")
	source := flags.String("source", "../..", "the `folder` of vmcp's sources")
	binaries := map[string]string{}
	flags.Func("binary", "put this static program into the image of its platform, `OS/ARCH=FILE`, instead of compiling one; the index then has the platforms named so", func(v string) error {
		platform, file, ok := strings.Cut(v, "=")
		if !ok {
			return errors.New("want OS/ARCH=FILE")
		}
		binaries[platform] = fromRoot(file)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *output == "" || flags.NArg() > 0 {
		return errors.New("usage: go -C deploy/image run . --output DIR [--tarball FILE] [--tag NAME]; paths are relative to the project's root")
	}
	b := builder{source: *source, binaries: binaries, stderr: stderr}
	index, err := b.index(*tag)
	if err != nil {
		return err
	}
	dir := fromRoot(*output)
	if err := writeLayout(dir, index, *tag); err != nil {
		return err
	}
	if *tarball != "" {
		if err := writeTarball(fromRoot(*tarball), dir); err != nil {
			return err
		}
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s@%s\n", *tag, digest)
	return err
}

// fromRoot resolves a path relative to the project's root, where the command is run: go -C has
// changed the working directory to this folder.
func fromRoot(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join("../..", path)
}
