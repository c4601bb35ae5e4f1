package main

import (
	"fmt"
	"os"
	"os/exec"
)

// image writes the container image of the platform as a tar file of an OCI layout. It runs deploy/image.
func (r *release) image(a artefact) error {
	if a.os != "linux" {
		return nil
	}
	layout, err := os.MkdirTemp("", "vmcp-layout")
	if err != nil {
		return err
	}
	defer os.RemoveAll(layout)
	to := r.name(artefact{platform: platform{"image_" + a.os, a.arch}, out: a.out}, ".tar")
	cmd := exec.Command("go", "-C", "deploy/image", "run", ".", "--binary", a.String()+"="+a.binary,
		"--tag", "ghcr.io/vmcp-dev/vmcp:"+r.version, "--output", layout, "--tarball", to)
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOOS=", "GOARCH=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("deploy/image: %v: %s", err, out)
	}
	return nil
}
