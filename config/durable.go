package config

import (
	"encoding/base64"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/config/internal/envfile"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// StorageURL is the environment variable that says where runs are kept instead of what the
// file says: sqlite:PATH or a URL of PostgreSQL.
const StorageURL = "VMCP_STORAGE_URL"

// What keeps runs.
const (
	StorageMemory   = "memory"
	StorageSQLite   = "sqlite"
	StoragePostgres = "postgres"
	storageRedis    = "redis"
)

// SessionStorage is where runs of scripted tools are kept. The environment variable
// VMCP_STORAGE_URL, sqlite:PATH or postgres://..., replaces provider, path and url.
type SessionStorage struct {
	// Provider is what keeps them. memory: this process, and they end with it. sqlite: a file, for one process. postgres: a database, for several. redis is ToolHive's and refused, unless VMCP_STORAGE_URL names another one.
	Provider string `json:"provider,omitempty" enum:"memory,sqlite,postgres,redis" default:"memory"`
	// Path is the database of sqlite, relative to the configuration file. It is created with mode 0600.
	Path string `json:"path,omitempty"`
	// URL is the database of postgres, as libpq writes it. ${NAME} is replaced from the environment, $${ stays ${.
	URL string `json:"url,omitempty"`
	// Schema is the schema of the tables in PostgreSQL; it is created if it is absent.
	Schema string `json:"schema,omitempty" default:"vmcp"`
	// MaxConnections is how many connections to PostgreSQL there are at most.
	MaxConnections int `json:"maxConnections,omitempty" default:"16"`
	// Sync is what a run survives. power: the loss of power, too. process: the end of the process.
	Sync string `json:"sync,omitempty" enum:"power,process" default:"power"`
	// Keys authenticate what is kept, and seal it. The first seals, all open. Without them sqlite makes one beside its file; postgres needs them.
	Keys []StorageKey `json:"keys,omitempty"`
	// Encrypt seals arguments, results, questions and answers with AES-256-GCM. Without it: true when there are keys.
	Encrypt *bool `json:"encrypt,omitempty"`
	// Address is ToolHive's, for redis, and ignored with a warning where VMCP_STORAGE_URL is set.
	Address string `json:"address,omitempty"`
	// DB is ToolHive's, for redis, as address.
	DB *int `json:"db,omitempty"`
	// KeyPrefix is ToolHive's, for redis, as address.
	KeyPrefix string `json:"keyPrefix,omitempty"`
}

// StorageKey is a key of 32 random bytes, in base64: openssl rand -base64 32 makes one.
type StorageKey struct {
	// ID names the key in what it has sealed: 1 to 64 printable characters.
	ID string `json:"id"`
	// Env names the environment variable with the key. A key has env or file.
	Env string `json:"env,omitempty"`
	// File is a file with the key, relative to the configuration file.
	File string `json:"file,omitempty"`
	// Key is what the variable or file held: 32 bytes.
	Key []byte `json:"-"`
}

// Runs says how runs of scripted tools outlive a request, a connection and the process.
type Runs struct {
	// Durable is which runs are kept. auto: those that have begun a call that may not be made twice, that wait, or that came with an idempotency key. always: every run, before anything is done. never: only while their questions wait, in memory.
	Durable string `json:"durable,omitempty" enum:"auto,always,never" default:"auto"`
	// OnDoubt is what becomes of a run that cannot know whether a call was made. wait: it stops in state doubt until vmcp runs resolve. fail: it fails.
	OnDoubt string `json:"onDoubt,omitempty" enum:"wait,fail" default:"wait"`
	// OnDisconnect is what becomes of a run whose client goes away in the middle. pause: it stops behind the present call, and goes on with the same request or vmcp runs resume. continue: it goes on.
	OnDisconnect string `json:"onDisconnect,omitempty" enum:"pause,continue" default:"pause"`
	// TrustHints makes a call repeatable when the tool says readOnlyHint or idempotentHint. false: only aggregation.tools[].overrides.NAME.repeatable does.
	TrustHints *bool `json:"trustHints,omitempty" default:"true"`
	// Hold is how long a request stays open for a run that sleeps, before it is answered and the run sleeps on without it.
	Hold Duration `json:"hold,omitempty" default:"10s"`
	// Lease is after how long a process that says nothing loses its runs to another one.
	Lease Duration `json:"lease,omitempty" default:"10s"`
	// Retention is how long runs are kept that are over.
	Retention Retention `json:"retention,omitempty"`
	// Notify tells somebody of runs that need a person.
	Notify Notify `json:"notify,omitempty"`
	// MaxEntries is how many effects the journal of one run has at most. Without it 1000 in a database, and 200000 in memory, where the journal also is before the run has to be written.
	MaxEntries int `json:"maxEntries,omitempty"`
	// MaxBytes is how large the journal of one run is at most. Without it 8MB in a database, and 128MB in memory.
	MaxBytes Bytes `json:"maxBytes,omitempty"`
}

// Retention is how long runs are kept that are over.
type Retention struct {
	// Done is for those that ended well.
	Done Duration `json:"done,omitempty" default:"7d"`
	// Failed is for those that failed or were cancelled.
	Failed Duration `json:"failed,omitempty" default:"30d"`
	// Keep is what is kept of them. full: everything. outline: no arguments, results, questions and answers. none: nothing.
	Keep string `json:"keep,omitempty" enum:"full,outline,none" default:"full"`
}

// Notify tells somebody of runs that need a person: signed, without contents, at least once.
type Notify struct {
	// URL gets a POST for each event. Exclusive with tool.
	URL string `json:"url,omitempty"`
	// Tool is called for each event, as backend.tool.
	Tool string `json:"tool,omitempty"`
	// Events are which events are reported: waiting, doubt, failed. Without them: all.
	Events []string `json:"events,omitempty"`
}

// storage checks where runs are kept, and learns where from the environment.
func (v *validator) storage(s *SessionStorage) {
	const at = "sessionStorage"
	place, replaced := v.env(StorageURL)
	replaced = replaced && place != ""
	if replaced && !v.replaceStorage(at, s, place) {
		return
	}
	switch s.Provider {
	case storageRedis:
		v.report(at+".provider", "redis is not supported: it does not keep what it has acknowledged; set provider: postgres here, or %s to sqlite:PATH or postgres://... in the environment", StorageURL)
	case StorageSQLite:
		if s.Path == "" {
			v.report(at, "want path: the file of the database, such as vmcp.db")
		}
		s.Path = v.absolute(s.Path)
	case StoragePostgres:
		v.postgres(at, s, replaced)
	}
	if !replaced && s.Provider != storageRedis {
		for _, f := range []string{"address", "db", "keyPrefix"} {
			if v.set(at + "." + f) {
				v.report(at+"."+f, "belongs to provider redis, which is not supported; remove it")
			}
		}
		v.onlyFor(at, s.Provider)
	}
	if s.MaxConnections < 0 || s.MaxConnections == 0 && v.set(at+".maxConnections") {
		v.report(at+".maxConnections", "want a positive number, have %d", s.MaxConnections)
	}
	v.storageKeys(at+".keys", s)
}

// onlyFor refuses fields of another provider than the one that there is.
func (v *validator) onlyFor(at, provider string) {
	for _, f := range []struct{ name, provider string }{
		{"path", StorageSQLite}, {"url", StoragePostgres}, // the others have defaults
	} {
		if v.set(at+"."+f.name) && f.provider != provider {
			v.report(at+"."+f.name, "belongs to provider %s", f.provider)
		}
	}
}

// replaceStorage takes provider and place from the environment.
func (v *validator) replaceStorage(at string, s *SessionStorage, place string) bool {
	scheme, path, _ := strings.Cut(place, ":")
	switch {
	case scheme == "sqlite" && path != "":
		s.Provider, s.Path, s.URL = StorageSQLite, path, ""
	case scheme == "postgres", scheme == "postgresql":
		s.Provider, s.Path, s.URL = StoragePostgres, "", place
		v.secrets = append(v.secrets, secret.InURL(place)...)
	default:
		v.report(at, "the environment variable %s is neither sqlite:PATH nor a URL that begins with postgres://", StorageURL)
		return false
	}
	for _, f := range []string{"address", "db", "keyPrefix"} {
		if v.set(at + "." + f) {
			v.warn(at+"."+f, "is ignored: %s says where runs are kept", StorageURL)
		}
	}
	return true
}

// postgres checks what only PostgreSQL has. The URL is not shown: it may hold a password.
func (v *validator) postgres(at string, s *SessionStorage, replaced bool) {
	if !replaced {
		if s.URL == "" {
			v.report(at, "want url: the database, such as postgres://vmcp@db.internal/vmcp")
			return
		}
		s.URL = v.expand(at+".url", s.URL)
		v.secrets = append(v.secrets, secret.InURL(s.URL)...)
	}
	if u, err := url.Parse(s.URL); s.URL != "" && (err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql") {
		v.report(at+".url", "want a URL that begins with postgres://")
	}
	if len(s.Keys) == 0 {
		v.report(at, "want keys: a database that others can write to needs a key that it does not hold; openssl rand -base64 32 makes one")
	}
	if v.set(at+".schema") && !envfile.IsName(s.Schema) {
		v.report(at+".schema", "want letters, digits and _, have %q", s.Schema)
	}
}

func (v *validator) storageKeys(list string, s *SessionStorage) {
	first := map[string]int{}
	for i := range s.Keys {
		k, at := &s.Keys[i], document.IndexPath(list, i)
		n, twice := first[k.ID]
		switch {
		case len(k.ID) < 1 || len(k.ID) > 64 || strings.ContainsFunc(k.ID, func(c rune) bool { return c <= ' ' || c > '~' }):
			v.report(at+".id", "want 1 to 64 printable characters without spaces, have %q", k.ID)
		case twice:
			v.report(at+".id", "%q is the id of keys[%d] already", k.ID, n)
		}
		first[k.ID] = i
		if (k.Env == "") == (k.File == "") {
			v.report(at, "want either env or file: where the key is")
			continue
		}
		v.storageKey(at, k)
	}
	if s.Encrypt == nil {
		encrypt := len(s.Keys) > 0
		s.Encrypt = &encrypt
	}
}

// storageKey reads one key. No message shows it.
func (v *validator) storageKey(at string, k *StorageKey) {
	const want = "32 random bytes in base64; openssl rand -base64 32 makes a key"
	text, place := "", at+".env"
	if k.Env != "" {
		value, ok := v.env(k.Env)
		if !ok || value == "" {
			v.report(place, "the environment variable %s is not set; want %s", k.Env, want)
			return
		}
		text = value
	} else {
		name := k.File
		place, k.File = at+".file", v.absolute(name)
		data, err := files.Read(k.File, maxToken)
		if os.IsNotExist(err) {
			v.report(place, "no such file %q; want a file with %s", name, want)
			return
		}
		if err != nil {
			v.report(place, "%q: %v", name, err)
			return
		}
		text = string(data)
	}
	text = strings.TrimSpace(text)
	v.secrets = append(v.secrets, text)
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != 32 {
		v.report(place, "does not hold a key; want %s", want)
		return
	}
	k.Key = key
}

// minLease is the shortest lease: a process has to renew it in time.
const minLease = time.Second

// runEvents are what Notify can tell of.
var runEvents = []string{"waiting", "doubt", "failed"}

func (v *validator) runs(c *Config) {
	r, n := &c.Runs, &c.Runs.Notify
	for _, d := range []struct {
		field string
		value Duration
	}{{"hold", r.Hold}, {"lease", r.Lease}, {"retention.done", r.Retention.Done}, {"retention.failed", r.Retention.Failed}} {
		if d.value <= 0 && v.set("runs."+d.field) {
			v.report("runs."+d.field, "want more than 0")
		}
	}
	if v.set("runs.lease") && r.Lease.Std() < minLease {
		v.report("runs.lease", "want at least %s: it is renewed three times in that", Duration(minLease))
	}
	if r.MaxEntries < 0 || r.MaxEntries == 0 && v.set("runs.maxEntries") {
		v.report("runs.maxEntries", "want a positive number, have %d", r.MaxEntries)
	}
	if v.set("runs.notify.url") && v.set("runs.notify.tool") {
		v.report("runs.notify.tool", "notify has a url or a tool, this one has both")
	}
	if v.set("runs.notify.url") {
		v.url("runs.notify.url", n.URL)
	}
	if v.set("runs.notify.tool") {
		backend, tool, ok := strings.Cut(n.Tool, ".")
		if !ok || tool == "" {
			v.report("runs.notify.tool", "want backend.tool, have %q", n.Tool)
		} else {
			v.workload(c, "runs.notify.tool", backend)
		}
	}
	for i, e := range n.Events {
		if !slices.Contains(runEvents, e) {
			v.report(document.IndexPath("runs.notify.events", i), "want waiting, doubt or failed, have %q", e)
		}
	}
	if len(n.Events) > 0 && n.URL == "" && n.Tool == "" {
		v.report("runs.notify", "want url or tool: who is notified")
	}
}
