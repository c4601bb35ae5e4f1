package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// writeLayout writes the image with its tag as the only one of an OCI image layout. It replaces a
// layout in the folder; a folder with other files is refused.
func writeLayout(dir string, index v1.ImageIndex, tag string) error {
	if err := clear(dir); err != nil {
		return err
	}
	ref, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": ref.TagStr(), // skopeo's oci:DIR:TAG
		"io.containerd.image.name":          ref.Name(),   // docker load, ctr images import
	}))
}

// clear removes an earlier layout, so that no blobs of other images remain.
func clear(dir string) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err != nil {
		return fmt.Errorf("%s is neither empty nor an OCI image layout: name another folder", dir)
	}
	for _, part := range []string{"oci-layout", "index.json", "blobs"} {
		if err := os.RemoveAll(filepath.Join(dir, part)); err != nil {
			return err
		}
	}
	return nil
}

// writeTarball writes the layout in dir as a tar file. Equal layouts give equal bytes.
func writeTarball(file, dir string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return addFile(w, path, dir)
	})
	if err != nil {
		return err
	}
	return w.Close()
}

func addFile(w *tar.Writer, path, dir string) error {
	within, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(within), Mode: 0o644, Size: info.Size(), ModTime: epoch, Format: tar.FormatUSTAR}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
