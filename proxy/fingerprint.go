package proxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// This part of the package computes a hash of a configuration: of the content of the file, before
// variables are expanded, and of the scripts, libraries, policies and pins that it refers to. The
// hash does not depend on comments, the order of keys and the folder of the files, so that replicas
// can be compared. Values of variables are not hashed.
//
//	hash := fingerprint.Of(cfg) // sha256:9f86d081884c7d65...

// maxFile bounds a file that is read for the hash, in bytes; scripts that compile are smaller.
const maxFile = 4 << 20

// Of is the hash of a configuration. A file that cannot be read is treated as missing: the package that uses its
// content reports the error.
func Fingerprint(cfg *config.Config) string {
	h := sha256.New()
	part(h, "configuration", written(cfg))
	reads := cfg.Scripted()
	for _, t := range reads.Files {
		file(h, "script", filepath.Base(t), t)
	}
	for _, dir := range reads.Folders {
		folder(h, dir)
	}
	for _, glob := range cfg.IncomingAuth.Authz.PolicyFiles {
		found, _ := filepath.Glob(glob)
		for _, name := range found {
			file(h, "policy", filepath.Base(name), name)
		}
	}
	if cfg.Pins.Path != "" {
		file(h, "pins", filepath.Base(cfg.Pins.Path), cfg.Pins.Path)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// written is the content of the file as JSON with sorted keys. A configuration that was made in Go, such as one from
// Kubernetes objects, contains secrets: they are removed.
func written(cfg *config.Config) []byte {
	text := cfg.Written()
	if text == nil {
		same := cfg.Fork()
		// Addresses differ between replicas, and their variables are expanded.
		same.Listen, same.Admin.Listen, same.Cluster.Listen, same.Cluster.Advertise = "", "", "", ""
		all, err := json.Marshal(same)
		if err != nil {
			return []byte(err.Error())
		}
		var hidden secret.Redactor
		hidden.Use(cfg.Secrets())
		text = hidden.JSON(all)
	}
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	var tree any
	if numbers.Decode(&tree) != nil {
		return text
	}
	ordered, err := json.Marshal(tree)
	if err != nil {
		return text
	}
	return ordered
}

// folder adds the scripts below a folder, by their relative paths. Hidden files and folders are skipped, as when scripts
// are loaded: a mounted ConfigMap has hidden folders with a different name in every pod.
func folder(h hash.Hash, dir string) {
	var names []string
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && name != dir && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if err == nil && !d.IsDir() && strings.HasSuffix(name, ".star") && !files.IsTest(name) {
			names = append(names, name)
		}
		return nil // treated as missing
	})
	slices.Sort(names)
	part(h, "folder", fmt.Appendf(nil, "%d", len(names)))
	for _, name := range names {
		below, err := filepath.Rel(dir, name)
		if err != nil {
			below = name
		}
		file(h, "script", filepath.ToSlash(below), name)
	}
}

// file adds the content of a file under a name.
func file(h hash.Hash, kind, as, name string) {
	data, _ := files.Read(name, maxFile)
	part(h, kind+" "+as, data)
}

// part adds a name and a content with their lengths, so that different sequences of parts have different encodings.
func part(h hash.Hash, name string, text []byte) {
	fmt.Fprintf(h, "%d %s %d\n", len(name), name, len(text))
	h.Write(text)
}
