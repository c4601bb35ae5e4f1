// Package fingerprint tells configurations apart by a hash: of what the file says, before
// variables are put in, and of the scripts, libraries, policies and pins that it names. A comment
// changes nothing, nor does the order of keys or the folder that all of it is in, so that two
// replicas can be compared. A secret that came through a variable is not in it.
//
//	hash := fingerprint.Of(cfg) // sha256:9f86d081884c7d65...
package fingerprint

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

// maxFile bounds a file that is read for the hash, in bytes; what compiles is smaller.
const maxFile = 4 << 20

// Of is the hash of a configuration. A file that cannot be read counts as one that is not there: what reads it for
// its text says what is wrong with it.
func Of(cfg *config.Config) string {
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

// written is what the file says with the keys in order. A configuration that was made in Go, as those of Kubernetes
// are, has its secrets put in already: they are taken out.
func written(cfg *config.Config) []byte {
	text := cfg.Written()
	if text == nil {
		same := cfg.Fork()
		same.Cluster.Listen, same.Cluster.Advertise = "", "" // of each replica, with variables put in
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

// folder adds the scripts below a folder, by their names in it. What is hidden is left out, as when they are served:
// the folders of a mounted ConfigMap have other names in every pod.
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
		return nil // what cannot be read is not there
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

// file adds a file under a name.
func file(h hash.Hash, kind, as, name string) {
	data, _ := files.Read(name, maxFile)
	part(h, kind+" "+as, data)
}

// part adds a text with its length, so that no two sequences of parts are the same bytes.
func part(h hash.Hash, name string, text []byte) {
	fmt.Fprintf(h, "%d %s %d\n", len(name), name, len(text))
	h.Write(text)
}
