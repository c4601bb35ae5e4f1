// Package discovery says where a running server is.
//
// With --discovery-file, or discovery.file of the configuration, serve writes where it is once
// its port is open, and removes the file at its end. Programs that start an endpoint for
// themselves, and vmcp call and vmcp tools, find it there. The file holds names of files and
// never a token. Whoever serves last has the file. Without either it is the user's file, which
// whoever serves first has.
package discovery

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

// File is what the file says.
type File struct {
	URL       string `json:"url"` // of the MCP endpoint
	PID       int    `json:"pid"`
	TokenFile string `json:"tokenFile,omitempty"` // with the token that callers bring
	// AdminURL is the port for operators, and AdminTokenFile has the token for it; "" where there is none.
	AdminURL       string `json:"adminUrl,omitempty"`
	AdminTokenFile string `json:"adminTokenFile,omitempty"`
	// Config is the configuration that is served, absolute; "" where none is a file.
	Config    string    `json:"config,omitempty"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt"`
}

// maxDiscovery bounds a discovery file, in bytes.
const maxDiscovery = 64 << 10

// Announce writes the discovery file: that of the user where none is named, and none where that is none. The returned function removes it,
// unless another server has written it since.
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
		log.Warn("the discovery file named another server, which still runs; it names this one now", "file", path, "pid", before.PID, "url", before.URL)
	}
	return write(path, d)
}

// AnnounceToUser is Announce in the file of the user, which nobody asked for: a server that is found there stays, and
// that it cannot be written is no failure.
func AnnounceToUser(d File, log *slog.Logger) (remove func()) {
	path := UserFile()
	if path == "" {
		return func() {}
	}
	before, live := Find(path)
	if live && before.PID != d.PID && before.URL != d.URL { // the port is ours now, whatever has that number
		log.Debug("the discovery file names another server, which still runs", "file", path, "pid", before.PID, "url", before.URL)
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
			_ = os.Remove(path) // a file that stays is stale, which its readers see
		}
	}, nil
}

// read reads a discovery file.
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

// Find is what a discovery file says of a server that runs. One that was left behind by
// a process that has died says nothing.
func Find(path string) (File, bool) {
	d, err := read(path)
	if err != nil || !running(d.PID) {
		return d, false
	}
	u, err := url.Parse(d.URL)
	if err != nil || u.Host == "" {
		return d, false
	}
	conn, err := net.DialTimeout("tcp", u.Host, time.Second) // the pid may be another's by now
	if err != nil {
		return d, false
	}
	_ = conn.Close()
	return d, true
}

// UserFile is where vmcp call and vmcp tools look when nothing else says where a server is.
func UserFile() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".vmcp", "server.json")
}

// running reports whether there is a process of that number. Where that cannot be asked, there is.
func running(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission) || runtime.GOOS == "windows"
}

// Reachable is an address that was opened as clients on this machine name it.
func Reachable(host, port string) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // served everywhere, so here
	}
	return net.JoinHostPort(host, port)
}
