package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// sbom writes the bill of materials of the program for a platform.
func (r *release) sbom(a artefact) error { return r.writeSBOM(a.binary, r.name(a, ".cdx.json")) }

// writeSBOM writes the modules of a program, from the build information in the program.
func (r *release) writeSBOM(binary, to string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	sum, err := sha256Of(binary)
	if err != nil {
		return err
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = serial(sum)
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	program := component(cyclonedx.ComponentTypeApplication, info.Main.Path, "v"+r.version)
	program.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}}
	program.Properties = properties(settings)
	program.Licenses = licenseChoice([]string{"Apache-2.0"})
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.date.Format(time.RFC3339), Component: &program}
	standard := component(cyclonedx.ComponentTypeLibrary, "stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	standard.Licenses = licenseChoice([]string{"BSD-3-Clause"})
	components := []cyclonedx.Component{standard}
	for _, m := range info.Deps {
		c, err := moduleComponent(m)
		if err != nil {
			return err
		}
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	bom.Components = &components
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	return create(to, func(w io.Writer) error {
		return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

// moduleComponent makes the component of a module, or of its replacement, with the hash of go.sum and its licences.
func moduleComponent(m *debug.Module) (cyclonedx.Component, error) {
	for m.Replace != nil {
		m = m.Replace
	}
	c := component(cyclonedx.ComponentTypeLibrary, m.Path, m.Version)
	if sum, ok := strings.CutPrefix(m.Sum, "h1:"); ok { // SHA-256 of the list of the module's files
		hash, err := base64.StdEncoding.DecodeString(sum)
		if err != nil {
			return c, fmt.Errorf("%s: %w", m.Path, err)
		}
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}
	}
	texts, err := licensesOf(m.Path, m.Version)
	if err != nil {
		return c, err
	}
	c.Licenses = licenseChoice(identifiers(texts))
	return c, nil
}

// component makes a component whose package URL is its reference as well.
func component(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{BOMRef: purl, Type: kind, Name: path, Version: version, PackageURL: purl}
}

func licenseChoice(ids []string) *cyclonedx.Licenses {
	var list cyclonedx.Licenses
	for _, id := range ids {
		list = append(list, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &list
}

// properties returns the build settings of the program.
func properties(settings map[string]string) *[]cyclonedx.Property {
	var list []cyclonedx.Property
	for _, key := range []string{"GOOS", "GOARCH", "CGO_ENABLED", "-trimpath", "vcs.revision", "vcs.modified"} {
		if v := settings[key]; v != "" {
			list = append(list, cyclonedx.Property{Name: "vmcp:build:" + key, Value: v})
		}
	}
	return &list
}

// serial makes a UUID from the program's hash, so that the document of a program is reproducible.
func serial(sum string) string {
	h := sha256.Sum256([]byte("vmcp sbom " + sum))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // version 8 (RFC 9562): custom
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
