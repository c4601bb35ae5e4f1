package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the uid and gid of the process, as in other nonroot images. It owns no file of the image.
const user = "65532:65532"

// versionVariable is the variable with the version that vmcp version prints.
const versionVariable = "github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli.tag"

// platforms are the platforms of the image.
var platforms = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}

// epoch is the time of all files and metadata in the image.
var epoch = time.Unix(0, 0).UTC()

// builder makes images from the sources in a folder.
type builder struct {
	source   string
	binaries map[string]string // paths of compiled programs, by platform; if empty, all platforms are compiled
	stderr   io.Writer         // of the compiler
}

// index makes the image for all platforms.
func (b builder) index(tag string) (v1.ImageIndex, error) {
	ref, err := name.NewTag(tag)
	if err != nil {
		return nil, fmt.Errorf("--tag: %v", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	wanted, err := b.platforms()
	if err != nil {
		return nil, err
	}
	for _, p := range wanted {
		binary, err := b.binary(p, ref.TagStr())
		if err != nil {
			return nil, err
		}
		image, err := imageOf(p, binary, ref.TagStr())
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &p}})
	}
	return index, nil
}

// platforms returns the platforms of the given binaries, or all if none are given.
func (b builder) platforms() ([]v1.Platform, error) {
	if len(b.binaries) == 0 {
		return platforms, nil
	}
	var wanted []v1.Platform
	for _, name := range slices.Sorted(maps.Keys(b.binaries)) {
		i := slices.IndexFunc(platforms, func(p v1.Platform) bool { return p.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("--binary: no image for %q, want linux/amd64 or linux/arm64", name)
		}
		wanted = append(wanted, platforms[i])
	}
	return wanted, nil
}

// binary returns the program for a platform.
func (b builder) binary(p v1.Platform, version string) ([]byte, error) {
	if file := b.binaries[p.String()]; file != "" {
		return os.ReadFile(file)
	}
	return b.compile(p, version)
}

// compile builds the static binary for a platform.
func (b builder) compile(p v1.Platform, version string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "vmcp-image")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "vmcp")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X "+versionVariable+"="+version, "-o", out, "./cmd/vmcp")
	cmd.Dir = b.source
	cmd.Stderr = b.stderr
	// The caller's build tags, processor variants and flags must not affect the image.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Architecture,
		"GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go build for %s: %v", p, err)
	}
	return os.ReadFile(out)
}

// imageOf makes an image of one layer with the binary.
func imageOf(p v1.Platform, binary []byte, version string) (v1.Image, error) {
	content, err := layerOf(binary)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS:           p.OS,
		Architecture: p.Architecture,
		RootFS:       v1.RootFS{Type: "layers"},
		Created:      v1.Time{Time: epoch},
		Config: v1.Config{
			User:       user,
			Entrypoint: []string{"/vmcp"},
			WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title":    "vmcp",
				"org.opencontainers.image.version":  version,
				"org.opencontainers.image.source":   "https://github.com/vmcp-dev/vmcp",
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "vmcp deploy/image"},
	})
}

// layerOf makes a tar file with the binary as /vmcp, owned by root and executable for all.
func layerOf(binary []byte) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: "vmcp", Mode: 0o755, Size: int64(len(binary)), ModTime: epoch, Format: tar.FormatUSTAR}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(binary); err != nil {
		return nil, err
	}
	err := w.Close()
	return buf.Bytes(), err
}
