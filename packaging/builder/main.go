// Command builder makes all artefacts of a release of vmcp on this machine:
//
//	packaging/build VERSION OUTDIR [--only OS/ARCH]... [--kind KIND]...
//
// For each platform: an archive, a bill of materials (CycloneDX) and the package for npm; for Linux a deb, an rpm and a
// container image as well. For all together: npm's wrapper, a Homebrew formula and checksums.txt. The same commit, version
// and Go release give the same bytes, on every machine and in every folder.
//
// GoReleaser (.goreleaser.yaml) uses three parts of it: --stage VERSION DIR writes the files of packages beside the
// program, --sbom VERSION BINARY FILE the bill of materials of one program, and --formula VERSION OUTDIR the formula for
// the archives in OUTDIR.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintf(os.Stderr, "build: %v\n", err)
		os.Exit(1)
	}
}

const usage = "usage: packaging/build VERSION OUTDIR, with --only OS/ARCH and --kind KIND any number of times"

// kinds are the values of --kind, in the order in which the artefacts are made.
var kinds = []string{"archive", "deb", "rpm", "image", "npm", "sbom", "formula"}

// run parses and executes the command line. Flags may follow the arguments.
func run(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.SetOutput(stderr)
	source := flags.String("source", "../..", "the `folder` of vmcp's sources")
	stage := flags.Bool("stage", false, "write what packages have beside the program: build --stage VERSION DIR")
	bill := flags.Bool("sbom", false, "write the bill of materials of a program: build --sbom VERSION BINARY FILE")
	tap := flags.Bool("formula", false, "write the Homebrew formula for the archives in a folder: build --formula VERSION OUTDIR")
	var only []platform
	flags.Func("only", "make what is for this platform, `OS/ARCH`; repeatable", func(v string) error {
		p, err := platformOf(v)
		only = append(only, p)
		return err
	})
	var wanted []string
	flags.Func("kind", "make artefacts of this `kind` only: "+strings.Join(kinds, ", ")+"; repeatable", func(v string) error {
		if !slices.Contains(kinds, v) {
			return fmt.Errorf("want %s", strings.Join(kinds, ", "))
		}
		wanted = append(wanted, v)
		return nil
	})
	rest, err := parse(flags, args)
	if err != nil {
		return err
	}
	if want := map[bool]int{false: 2, true: 3}[*bill]; len(rest) != want {
		return errors.New(usage)
	}
	r, err := newRelease(*source, rest[0], stderr)
	if err != nil {
		return err
	}
	if *bill {
		return r.writeSBOM(rest[1], rest[2])
	}
	out, err := filepath.Abs(rest[1])
	if err != nil {
		return err
	}
	switch {
	case *stage:
		return r.stage(out, "")
	case *tap:
		return r.writeFormula(out)
	}
	if len(only) == 0 {
		only = platforms
	}
	if len(wanted) == 0 {
		wanted = kinds
	}
	return r.build(out, only, wanted)
}

// parse parses flags at any position and returns the other arguments.
func parse(flags *flag.FlagSet, args []string) ([]string, error) {
	var rest []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return rest, nil
		}
		rest = append(rest, flags.Arg(0))
		args = flags.Args()[1:]
	}
}
