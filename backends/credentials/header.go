package credentials

import (
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

const (
	// maxSecret bounds a file with a secret, in bytes.
	maxSecret = 64 << 10
	// lookEvery is the shortest interval between two checks of such a file, or of a stored grant, for
	// changes.
	lookEvery = time.Second
)

// injected returns the source of a configured header.
func injected(p *Pool, h config.HeaderInjection) Source {
	if h.HeaderValueFile == "" {
		return fixed{h.HeaderName, h.HeaderValuePrefix + h.Value()}
	}
	return &fileHeader{pool: p, cfg: h}
}

// fixed is a header whose value is in the configuration.
type fixed Credential

// Get implements Source.
func (f fixed) Get(context.Context) (Credential, error) { return Credential(f), nil }

// Refused implements Source: there is no other value.
func (f fixed) Refused(Credential) bool { return false }

// fileHeader is a header whose value is in a file. While the file cannot be read, the previous
// value stays in use.
type fileHeader struct {
	pool *Pool
	cfg  config.HeaderInjection

	mu     sync.Mutex
	value  string    // guarded by mu; "" while there is none
	stamp  fileStamp // guarded by mu: of the file at the last attempt
	looked time.Time // guarded by mu
	err    error     // guarded by mu: of the last read
}

// fileStamp tells one version of a file from another.
type fileStamp struct {
	size     int64
	modified time.Time
}

func stampOf(name string) fileStamp {
	info, err := os.Stat(name)
	if err != nil {
		return fileStamp{}
	}
	return fileStamp{info.Size(), info.ModTime()}
}

// Get implements Source.
func (f *fileHeader) Get(context.Context) (Credential, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.value == "" || now.Sub(f.looked) >= lookEvery {
		f.looked = now
		f.read(false)
	}
	if f.value == "" {
		return Credential{}, unavailable("headerValueFile: %w", f.err)
	}
	return f.credential(), nil
}

func (f *fileHeader) credential() Credential {
	return Credential{f.cfg.HeaderName, f.cfg.HeaderValuePrefix + f.value}
}

// Refused implements Source: the file may have a newer value already.
func (f *fileHeader) Refused(c Credential) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read(true)
	return f.value != "" && f.credential() != c
}

// read reads the file if it has changed or always is set. mu is held.
func (f *fileHeader) read(always bool) {
	stamp := stampOf(f.cfg.HeaderValueFile)
	if !always && f.value != "" && stamp == f.stamp {
		return
	}
	value, err := readSecret(f.cfg.HeaderValueFile)
	if err != nil {
		if f.value != "" && stamp != f.stamp {
			f.pool.o.Log.Warn("headerValueFile not read, the previous value stays in use", "err", err)
		}
		f.stamp, f.err = stamp, err
		return
	}
	f.pool.hide(value, f.cfg.HeaderValuePrefix+value)
	f.value, f.stamp, f.err = value, stamp, nil
}

// readSecret reads a file with one secret and at most one line break after it.
func readSecret(name string) (string, error) {
	data, err := files.Read(name, maxSecret)
	if err != nil {
		return "", unavailable("%s: %w", name, err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	switch {
	case text == "":
		return "", unavailable("%s: the file is empty", name)
	case strings.ContainsAny(text, "\r\n\x00"):
		return "", unavailable("%s: more than one line; want the value alone", name)
	}
	return text, nil
}
