package cli

import (
	"os"
	"path/filepath"
	"runtime"
)

// This part of the package knows where MCP clients keep their configurations, and where vmcp keeps its own
// state.

// Names are the known clients, in the order in which they are searched.
var Names = []string{"claude", "claude-desktop", "cursor", "vscode", "codex", "windsurf", "gemini", "zed", "opencode", "goose", "cline"}

// System is what the paths depend on.
type System struct {
	OS, Home string
	Env      func(string) string
}

// This is the system that this program runs on.
func This() System {
	home, _ := os.UserHomeDir()
	return System{OS: runtime.GOOS, Home: home, Env: os.Getenv}
}

// config is the folder for the settings of programs.
func (s System) config() string {
	switch {
	case s.OS == "darwin":
		return filepath.Join(s.Home, "Library", "Application Support")
	case s.OS == "windows":
		if folder := s.Env("APPDATA"); folder != "" {
			return folder
		}
		return filepath.Join(s.Home, "AppData", "Roaming")
	}
	return s.xdg()
}

func (s System) xdg() string {
	if folder := s.Env("XDG_CONFIG_HOME"); folder != "" {
		return folder
	}
	return filepath.Join(s.Home, ".config")
}

// File is where a client keeps its servers; "" for an unknown client.
func (s System) File(client string) string {
	switch client {
	case "claude":
		return filepath.Join(s.Home, ".claude.json")
	case "claude-desktop":
		return filepath.Join(s.config(), "Claude", "claude_desktop_config.json")
	case "cursor":
		return filepath.Join(s.Home, ".cursor", "mcp.json")
	case "vscode":
		return filepath.Join(s.config(), "Code", "User", "mcp.json")
	case "codex":
		if folder := s.Env("CODEX_HOME"); folder != "" {
			return filepath.Join(folder, "config.toml")
		}
		return filepath.Join(s.Home, ".codex", "config.toml")
	case "windsurf":
		return filepath.Join(s.Home, ".codeium", "windsurf", "mcp_config.json")
	case "gemini":
		return filepath.Join(s.Home, ".gemini", "settings.json")
	case "zed":
		if s.OS == "darwin" {
			return filepath.Join(s.xdg(), "zed", "settings.json")
		}
		return filepath.Join(s.config(), "zed", "settings.json")
	case "opencode":
		return filepath.Join(s.xdg(), "opencode", "opencode.json")
	case "goose":
		if s.OS == "windows" {
			return filepath.Join(s.config(), "Block", "goose", "config", "config.yaml")
		}
		return filepath.Join(s.xdg(), "goose", "config.yaml")
	case "cline":
		return filepath.Join(s.config(), "Code", "User", "globalStorage", "saoudrizwan.claude-dev", "settings", "cline_mcp_settings.json")
	}
	return ""
}

// Project is where a client keeps the servers of a project; "" if it has no such file.
func Project(client, folder string) string {
	switch client {
	case "claude":
		return filepath.Join(folder, ".mcp.json")
	case "cursor":
		return filepath.Join(folder, ".cursor", "mcp.json")
	case "vscode":
		return filepath.Join(folder, ".vscode", "mcp.json")
	}
	return ""
}

// Folder is a folder that exists when the client has been used.
func (s System) Folder(client string) string {
	switch client {
	case "claude":
		return filepath.Join(s.Home, ".claude")
	case "vscode":
		return filepath.Join(s.config(), "Code")
	}
	return filepath.Dir(s.File(client))
}

// State is the folder for the state of vmcp.
func (s System) State() string {
	folder := s.Env("XDG_STATE_HOME")
	switch {
	case filepath.IsAbs(folder):
	case s.OS == "windows":
		if folder = s.Env("LOCALAPPDATA"); folder == "" {
			folder = filepath.Join(s.Home, "AppData", "Local")
		}
	default:
		folder = filepath.Join(s.Home, ".local", "state")
	}
	return filepath.Join(folder, "vmcp")
}
