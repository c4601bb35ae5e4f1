package setup

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// place is the configuration of a client on this machine.
type place struct {
	client, file string
}

// names are the clients whose files are known, in the order in which they are looked at.
var names = []string{"claude", "claude-desktop", "cursor", "vscode", "codex", "windsurf", "gemini", "zed", "opencode", "goose", "cline"}

// system is what the places of files depend on.
type system struct {
	os, home string
	env      func(string) string
}

func thisSystem() system {
	home, _ := os.UserHomeDir()
	return system{os: runtime.GOOS, home: home, env: os.Getenv}
}

// config is the folder where programs of this system keep their settings.
func (s system) config() string {
	switch {
	case s.os == "darwin":
		return filepath.Join(s.home, "Library", "Application Support")
	case s.os == "windows":
		if folder := s.env("APPDATA"); folder != "" {
			return folder
		}
		return filepath.Join(s.home, "AppData", "Roaming")
	}
	return s.xdg()
}

func (s system) xdg() string {
	if folder := s.env("XDG_CONFIG_HOME"); folder != "" {
		return folder
	}
	return filepath.Join(s.home, ".config")
}

// file is where a client keeps its servers; "" for a client that is not known.
func (s system) file(client string) string {
	switch client {
	case "claude":
		return filepath.Join(s.home, ".claude.json")
	case "claude-desktop":
		return filepath.Join(s.config(), "Claude", "claude_desktop_config.json")
	case "cursor":
		return filepath.Join(s.home, ".cursor", "mcp.json")
	case "vscode":
		return filepath.Join(s.config(), "Code", "User", "mcp.json")
	case "codex":
		if folder := s.env("CODEX_HOME"); folder != "" {
			return filepath.Join(folder, "config.toml")
		}
		return filepath.Join(s.home, ".codex", "config.toml")
	case "windsurf":
		return filepath.Join(s.home, ".codeium", "windsurf", "mcp_config.json")
	case "gemini":
		return filepath.Join(s.home, ".gemini", "settings.json")
	case "zed":
		if s.os == "darwin" {
			return filepath.Join(s.xdg(), "zed", "settings.json")
		}
		return filepath.Join(s.config(), "zed", "settings.json")
	case "opencode":
		return filepath.Join(s.xdg(), "opencode", "opencode.json")
	case "goose":
		if s.os == "windows" {
			return filepath.Join(s.config(), "Block", "goose", "config", "config.yaml")
		}
		return filepath.Join(s.xdg(), "goose", "config.yaml")
	case "cline":
		return filepath.Join(s.config(), "Code", "User", "globalStorage", "saoudrizwan.claude-dev", "settings", "cline_mcp_settings.json")
	}
	return ""
}

// found are the clients with servers in their files.
func found() (places []place) {
	s := thisSystem()
	for _, client := range names {
		file := s.file(client)
		data, err := files.Read(file, clients.MaxFile)
		if err != nil {
			continue
		}
		f, err := clients.Read(file, data, clients.Options{Home: s.home, Client: client})
		if err == nil && slices.ContainsFunc(f.Servers, func(s clients.Server) bool { return !s.Ignored }) {
			places = append(places, place{client, file})
		}
	}
	return places
}

// Entry is what a client's file says of a vmcp that it connects to.
type Entry struct{ Client, File, URL string }

// Own are the entries for vmcp in the files of clients on this machine.
func Own() (entries []Entry) {
	s := thisSystem()
	for _, client := range names {
		file := s.file(client)
		data, err := files.Read(file, clients.MaxFile)
		if err != nil {
			continue
		}
		f, err := clients.Read(file, data, clients.Options{Home: s.home, Client: client})
		if err != nil {
			continue
		}
		for _, v := range f.Servers {
			if v.Own != "" {
				entries = append(entries, Entry{client, file, v.Own})
			}
		}
	}
	return entries
}
