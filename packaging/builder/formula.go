package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/template"
)

// formula is the template of the Homebrew formula, with a block for each platform that has an archive.
var formula = template.Must(template.New("formula").Parse(`class Vmcp < Formula
  desc "Many MCP servers behind one endpoint, with tools scripted in Starlark"
  homepage "https://github.com/vmcp-dev/vmcp"
  version "{{.Version}}"
  license "Apache-2.0"
{{range .Systems}}
  on_{{.Name}} do
{{- range .Archives}}
    on_{{.Arch}} do
      url "https://github.com/vmcp-dev/vmcp/releases/download/v{{$.Version}}/{{.File}}"
      sha256 "{{.SHA256}}"
    end
{{- end}}
  end
{{end}}
  def install
    bin.install "vmcp"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/vmcp.bash" => "vmcp"
    zsh_completion.install "completions/_vmcp"
    fish_completion.install "completions/vmcp.fish"
  end

  service do
    run [opt_bin/"vmcp", "serve", "--config", etc/"vmcp/vmcp.yaml"]
    keep_alive crashed: true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/vmcp version")
    system bin/"vmcp", "init"
    system bin/"vmcp", "validate"
  end
end
`))

// brewOS and brewArch are Homebrew's names of platforms.
var (
	brewOS   = map[string]string{"darwin": "macos", "linux": "linux"}
	brewArch = map[string]string{"amd64": "intel", "arm64": "arm"}
)

// writeFormula writes vmcp.rb for the archives in the folder out; nothing if there are none.
func (r *release) writeFormula(out string) error {
	type archive struct{ Arch, File, SHA256 string }
	type system struct {
		Name     string
		Archives []archive
	}
	var systems []system
	for _, name := range []string{"darwin", "linux"} {
		s := system{Name: brewOS[name]}
		for _, p := range platforms {
			file := r.name(artefact{platform: p, out: out}, ".tar.gz")
			if sum, err := sha256Of(file); err == nil && p.os == name {
				s.Archives = append(s.Archives, archive{brewArch[p.arch], filepath.Base(file), sum})
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if s.Archives != nil {
			systems = append(systems, s)
		}
	}
	if systems == nil {
		return nil
	}
	var text bytes.Buffer
	if err := formula.Execute(&text, map[string]any{"Version": r.version, "Systems": systems}); err != nil {
		return fmt.Errorf("formula: %w", err)
	}
	return os.WriteFile(filepath.Join(out, "vmcp.rb"), text.Bytes(), 0o644)
}
