package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/vmcp-dev/vmcp/internal/files"
)

// This part of the package writes and reads the file that says where a running server listens.
//
// With --discovery-file, or discovery.file of the configuration, serve writes that file once
// its port is open, and removes it when it ends. Programs that start an endpoint for
// themselves read it, and so do vmcp call and vmcp tools. It holds the names of token files,
// never a token. A second server overwrites the file of the first, with a warning. When neither is
// set, it is ~/.vmcp/server.json, which a second server leaves to the first one as long as that runs.

// File is the content of a discovery file.
type File struct {
	URL       string `json:"url"` // of the MCP endpoint
	PID       int    `json:"pid"`
	TokenFile string `json:"tokenFile,omitempty"` // with the token that callers bring
	// AdminURL is the port for operators, and AdminTokenFile the file with its token; "" where there is none.
	AdminURL       string `json:"adminUrl,omitempty"`
	AdminTokenFile string `json:"adminTokenFile,omitempty"`
	// Config is the configuration that is served, absolute; "" where it is not in a file.
	Config    string    `json:"config,omitempty"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt"`
}

// maxDiscovery bounds a discovery file, in bytes.
const maxDiscovery = 64 << 10

// Announce writes a discovery file: at path, or in the user's file if path is "", or none if it is "none". It overwrites
// the file of another server, but not a file that is no discovery file. remove deletes the file, unless another
// server has written it since.
func Announce(path string, d File, log *slog.Logger) (remove func(), err error) {
	switch path {
	case "":
		return AnnounceToUser(d, log), nil
	case "none":
		return func() {}, nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	switch before, err := read(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("discovery file: %w; it is not overwritten", err)
	case before.PID != d.PID && running(before.PID):
		log.Warn("the discovery file of another running server is overwritten", "file", path, "pid", before.PID, "url", before.URL)
	}
	return write(path, d)
}

// AnnounceToUser writes the user's discovery file, unless that belongs to another running server. That it cannot be
// written is logged and is no error, since nobody asked for the file.
func AnnounceToUser(d File, log *slog.Logger) (remove func()) {
	path := UserFile()
	if path == "" {
		return func() {}
	}
	before, live := FindServer(path)
	if live && before.PID != d.PID && before.URL != d.URL { // a server with our URL has ended: the port is ours
		log.Debug("the discovery file belongs to another running server", "file", path, "pid", before.PID, "url", before.URL)
		return func() {}
	}
	_, err := read(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		remove, err = write(path, d)
	}
	if err != nil {
		log.Debug("no discovery file is written", "err", err)
		return func() {}
	}
	return remove
}

func write(path string, d File) (remove func(), err error) {
	if d.Config != "" {
		d.Config, _ = filepath.Abs(d.Config)
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	data = append(data, '\n')
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("discovery file: %w", err)
	}
	if err := files.WritePrivate(path, data); err != nil {
		return nil, fmt.Errorf("discovery file: %w", err)
	}
	return func() {
		if now, err := files.Read(path, maxDiscovery); err == nil && bytes.Equal(now, data) {
			_ = os.Remove(path) // one that stays is stale, which Find detects
		}
	}, nil
}

// read reads a discovery file and requires url and pid.
func read(path string) (File, error) {
	var d File
	data, err := files.Read(path, maxDiscovery)
	if err != nil {
		return d, err
	}
	if json.Unmarshal(data, &d) != nil || d.URL == "" || d.PID <= 0 {
		return d, fmt.Errorf("%s: not a discovery file: want url and pid", path)
	}
	return d, nil
}

// FindServer returns what a discovery file says, and whether that server runs: its process exists, and something
// listens at its URL.
func FindServer(path string) (File, bool) {
	d, err := read(path)
	if err != nil || !running(d.PID) {
		return d, false
	}
	u, err := url.Parse(d.URL)
	if err != nil || u.Host == "" {
		return d, false
	}
	conn, err := net.DialTimeout("tcp", u.Host, time.Second) // another process may have the pid by now
	if err != nil {
		return d, false
	}
	_ = conn.Close()
	return d, true
}

// UserFile is the file that is used when none is named; "" for a user without a home directory.
func UserFile() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".vmcp", "server.json")
}

// running reports whether a process has the id. On Windows, which cannot be asked, it is taken to have.
func running(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission) || runtime.GOOS == "windows"
}

// Reachable is the address for clients on this machine of a server that listens on host and port.
func Reachable(host, port string) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // it listens on all interfaces
	}
	return net.JoinHostPort(host, port)
}
