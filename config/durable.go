package config

import (
	"encoding/base64"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/config/internal/document"

	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// This part of the package is the part of the configuration about runs of scripted tools that survive the end of a request, a
// connection and the process: where they are stored, with which keys, for how long, and who is notified of them.

// storageURL is the environment variable that overrides where runs are stored: sqlite:PATH or a
// URL of PostgreSQL.
const storageURL = "VMCP_STORAGE_URL"

// The providers.
const (
	StorageMemory   = "memory"
	StorageSQLite   = "sqlite"
	StoragePostgres = "postgres"
	storageRedis    = "redis"
)

// SessionStorage is where runs of scripted tools are stored. The environment variable
// VMCP_STORAGE_URL, sqlite:PATH or postgres://..., replaces provider, path and url.
type SessionStorage struct {
	// Provider is the kind of storage. memory: in this process; runs end with it. sqlite: a file, for one process. postgres: a database, for several processes. redis, which ToolHive has, is refused unless VMCP_STORAGE_URL names another one.
	Provider string `json:"provider,omitempty" enum:"memory,sqlite,postgres,redis" default:"memory"`
	// Path is the database of sqlite, relative to the configuration file. It is created with mode 0600.
	Path string `json:"path,omitempty"`
	// URL is the connection URL of postgres, as libpq defines it. ${NAME} is replaced from the environment, $${ stays ${.
	URL string `json:"url,omitempty"`
	// Schema is the schema of the tables in PostgreSQL; it is created if it does not exist.
	Schema string `json:"schema,omitempty" default:"vmcp"`
	// MaxConnections is the maximum number of connections to PostgreSQL.
	MaxConnections int `json:"maxConnections,omitempty" default:"16"`
	// Sync is what a stored run survives. power: a power failure. process: the end of the process.
	Sync string `json:"sync,omitempty" enum:"power,process" default:"power"`
	// Keys authenticate and encrypt what is stored. The first encrypts, all decrypt. If unset, sqlite creates a key file beside its database; postgres requires keys.
	Keys []StorageKey `json:"keys,omitempty"`
	// Encrypt encrypts arguments, results, questions and answers with AES-256-GCM. Default: true if keys are set.
	Encrypt *bool `json:"encrypt,omitempty"`
	// Address is ToolHive's, for redis, and ignored with a warning if VMCP_STORAGE_URL is set.
	Address string `json:"address,omitempty"`
	// DB is ToolHive's, for redis, as address.
	DB *int `json:"db,omitempty"`
	// KeyPrefix is ToolHive's, for redis, as address.
	KeyPrefix string `json:"keyPrefix,omitempty"`
}

// StorageKey is a key of 32 random bytes, in base64: openssl rand -base64 32 makes one.
type StorageKey struct {
	// ID identifies the key in what it has encrypted: 1 to 64 printable characters.
	ID string `json:"id"`
	// Env is the name of the environment variable with the key. A key has env or file.
	Env string `json:"env,omitempty"`
	// File is a file with the key, relative to the configuration file.
	File string `json:"file,omitempty"`
	// Key is the value: 32 bytes.
	Key []byte `json:"-"`
}

// Lasting reports whether stored runs survive the end of the process.
func (s *SessionStorage) Lasting() bool { return s.Provider != StorageMemory }

// Runs is how runs of scripted tools survive the end of a request, a connection and the process.
type Runs struct {
	// Durable is which runs are stored. auto: those that have begun a call that may not be repeated, that wait, or that have an idempotency key. always: every run, from its beginning. never: in memory only, while a question is not answered.
	Durable string `json:"durable,omitempty" enum:"auto,always,never" default:"auto"`
	// OnDoubt is what happens to a run when it is unknown whether a call was made. wait: it stops in state doubt until vmcp runs resolve. fail: it fails. auto: wait where runs are stored in a database; in memory, where no operator can find them, fail.
	OnDoubt string `json:"onDoubt,omitempty" enum:"auto,wait,fail" default:"auto"`
	// OnDisconnect is what happens to a run whose client cancels or disconnects before its end. cancel: it ends, and so do its calls in progress. pause: it stops after the current call, and is resumed by the same request or vmcp runs resume. continue: it continues. auto: pause where runs are stored in a database; in memory cancel, but pause for a request with an idempotency key, which can be repeated.
	OnDisconnect string `json:"onDisconnect,omitempty" enum:"auto,cancel,pause,continue" default:"auto"`
	// TrustHints makes calls of tools with readOnlyHint or idempotentHint repeatable. false: only aggregation.tools[].overrides.NAME.repeatable does.
	TrustHints *bool `json:"trustHints,omitempty" default:"true"`
	// Hold is how long a request of revision 2026-07-28 stays open for a run that sleeps, counted from the beginning of the request; then it is answered, and its client repeats it. Less than the timeout of clients, which is 60s by default in the official SDKs.
	Hold limits.Duration `json:"hold,omitempty" default:"45s"`
	// AnswerWithin is how long a run in memory is kept for a client that was told to come back, and at least until its questions reach their deadlines; then the run is cancelled. In a database it is kept.
	AnswerWithin limits.Duration `json:"answerWithin,omitempty" default:"15m"`
	// JoinFor is how long an equal call of the same principal, without idempotency key, is refused with the id of a run that was interrupted by the end of its process.
	JoinFor limits.Duration `json:"joinFor,omitempty" default:"10m"`
	// Lease is the lifetime of the lease that a process has for its runs; when it expires, another process resumes them.
	Lease limits.Duration `json:"lease,omitempty" default:"10s"`
	// Retention is how long ended runs are kept.
	Retention Retention `json:"retention,omitempty"`
	// Notify is where events about runs that need a person are sent.
	Notify Notify `json:"notify,omitempty"`
	// MaxEntries is the maximum number of effects in the journal of one run. Default: 1000 in a database, and 200000 in memory, where the journal is until the run has to be stored.
	MaxEntries int `json:"maxEntries,omitempty"`
	// MaxBytes is the maximum size of the journal of one run. Default: 8MB in a database, and 128MB in memory.
	MaxBytes limits.Bytes `json:"maxBytes,omitempty"`
}

// Retention is how long ended runs are kept.
type Retention struct {
	// Done is for those that succeeded.
	Done limits.Duration `json:"done,omitempty" default:"7d"`
	// Failed is for those that failed or were cancelled.
	Failed limits.Duration `json:"failed,omitempty" default:"30d"`
	// Keep is what is kept of ended runs. full: everything. outline: everything except arguments, results, questions and answers. none: nothing.
	Keep string `json:"keep,omitempty" enum:"full,outline,none" default:"full"`
}

// Notify sends events about runs that need a person: signed, without contents, at least once.
type Notify struct {
	// URL receives a POST request for each event. Exclusive with tool.
	URL string `json:"url,omitempty"`
	// Tool is called for each event, as backend.tool.
	Tool string `json:"tool,omitempty"`
	// Events are the events that are sent: waiting, doubt, failed. Default: all.
	Events []string `json:"events,omitempty"`
}

// Check reports the problems of s, whose path is at, and applies VMCP_STORAGE_URL.
func (s *SessionStorage) Check(at string, v *Validator) {
	place, replaced := v.Env(storageURL)
	replaced = replaced && place != ""
	if replaced && !s.replace(at, place, v) {
		return
	}
	switch s.Provider {
	case storageRedis:
		v.Report(at+".provider", "redis is not supported: it does not keep what it has acknowledged; set provider: postgres here, or %s to sqlite:PATH or postgres://... in the environment", storageURL)
	case StorageSQLite:
		if s.Path == "" {
			v.Report(at, "want path: the file of the database, such as vmcp.db")
		}
		s.Path = v.Absolute(s.Path)
	case StoragePostgres:
		s.checkPostgres(at, replaced, v)
	}
	if !replaced && s.Provider != storageRedis {
		for _, f := range []string{"address", "db", "keyPrefix"} {
			if v.Set(at + "." + f) {
				v.Report(at+"."+f, "belongs to provider redis, which is not supported; remove it")
			}
		}
		s.refuseOthers(at, v)
	}
	if s.MaxConnections < 0 || s.MaxConnections == 0 && v.Set(at+".maxConnections") {
		v.Report(at+".maxConnections", "want a positive number, have %d", s.MaxConnections)
	}
	s.checkKeys(at+".keys", v)
}

// refuseOthers reports fields of other providers than the configured one.
func (s *SessionStorage) refuseOthers(at string, v *Validator) {
	for _, f := range []struct{ name, provider string }{
		{"path", StorageSQLite}, {"url", StoragePostgres}, // the others have defaults
	} {
		if v.Set(at+"."+f.name) && f.provider != s.Provider {
			v.Report(at+"."+f.name, "belongs to provider %s", f.provider)
		}
	}
}

// replace sets provider and path or url from VMCP_STORAGE_URL, and reports whether it is set.
func (s *SessionStorage) replace(at, place string, v *Validator) bool {
	scheme, path, _ := strings.Cut(place, ":")
	switch {
	case scheme == "sqlite" && path != "":
		s.Provider, s.Path, s.URL = StorageSQLite, path, ""
	case scheme == "postgres", scheme == "postgresql":
		s.Provider, s.Path, s.URL = StoragePostgres, "", place
		v.Secrets = append(v.Secrets, secret.InURL(place)...)
	default:
		v.Report(at, "the environment variable %s is neither sqlite:PATH nor a URL that begins with postgres://", storageURL)
		return false
	}
	for _, f := range []string{"address", "db", "keyPrefix"} {
		if v.Set(at + "." + f) {
			v.Warn(at+"."+f, "is ignored: %s says where runs are kept", storageURL)
		}
	}
	return true
}

// checkPostgres checks the fields of PostgreSQL. Messages do not show the URL: it may have a password.
func (s *SessionStorage) checkPostgres(at string, replaced bool, v *Validator) {
	if !replaced {
		if s.URL == "" {
			v.Report(at, "want url: the database, such as postgres://vmcp@db.internal/vmcp")
			return
		}
		s.URL = v.Expand(at+".url", s.URL)
		v.Secrets = append(v.Secrets, secret.InURL(s.URL)...)
	}
	if u, err := url.Parse(s.URL); s.URL != "" && (err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql") {
		v.Report(at+".url", "want a URL that begins with postgres://")
	}
	if len(s.Keys) == 0 {
		v.Report(at, "want keys: a database that others can write to needs a key that it does not hold; openssl rand -base64 32 makes one")
	}
	if v.Set(at+".schema") && !isName(s.Schema) {
		v.Report(at+".schema", "want letters, digits and _, have %q", s.Schema)
	}
}

func (s *SessionStorage) checkKeys(list string, v *Validator) {
	first := map[string]int{}
	for i := range s.Keys {
		k, at := &s.Keys[i], document.IndexPath(list, i)
		n, twice := first[k.ID]
		switch {
		case len(k.ID) < 1 || len(k.ID) > 64 || strings.ContainsFunc(k.ID, func(c rune) bool { return c <= ' ' || c > '~' }):
			v.Report(at+".id", "want 1 to 64 printable characters without spaces, have %q", k.ID)
		case twice:
			v.Report(at+".id", "%q is the id of keys[%d] already", k.ID, n)
		}
		first[k.ID] = i
		if (k.Env == "") == (k.File == "") {
			v.Report(at, "want either env or file: where the key is")
			continue
		}
		k.check(at, v)
	}
	if s.Encrypt == nil {
		encrypt := len(s.Keys) > 0
		s.Encrypt = &encrypt
	}
}

// check reads the key. Messages do not show it.
func (k *StorageKey) check(at string, v *Validator) {
	const want = "32 random bytes in base64; openssl rand -base64 32 makes a key"
	text, place := "", at+".env"
	if k.Env != "" {
		value, ok := v.Env(k.Env)
		if !ok || value == "" {
			v.Report(place, "the environment variable %s is not set; want %s", k.Env, want)
			return
		}
		text = value
	} else {
		name := k.File
		place, k.File = at+".file", v.Absolute(name)
		data, err := files.Read(k.File, maxKey)
		if os.IsNotExist(err) {
			v.Report(place, "no such file %q; want a file with %s", name, want)
			return
		}
		if err != nil {
			v.Report(place, "%q: %v", name, err)
			return
		}
		text = string(data)
	}
	text = strings.TrimSpace(text)
	v.Secrets = append(v.Secrets, text)
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != 32 {
		v.Report(place, "does not hold a key; want %s", want)
		return
	}
	k.Key = key
}

// maxKey bounds a file with one key, in bytes.
const maxKey = 4 << 10

// minLease is the shortest lease: a process renews it three times within it.
const minLease = time.Second

// runEvents are the events that Notify can send.
var runEvents = []string{"waiting", "doubt", "failed"}

// Check reports the problems of r, whose path is path.
func (r *Runs) Check(path string, v *Validator) {
	for _, d := range []struct {
		field string
		value limits.Duration
	}{{"hold", r.Hold}, {"answerWithin", r.AnswerWithin}, {"joinFor", r.JoinFor}, {"lease", r.Lease}, {"retention.done", r.Retention.Done}, {"retention.failed", r.Retention.Failed}} {
		if at := path + "." + d.field; d.value <= 0 && v.Set(at) {
			v.Report(at, "want more than 0")
		}
	}
	if v.Set(path+".lease") && r.Lease.Std() < minLease {
		v.Report(path+".lease", "want at least %s: it is renewed three times in that", limits.Duration(minLease))
	}
	if r.MaxEntries < 0 || r.MaxEntries == 0 && v.Set(path+".maxEntries") {
		v.Report(path+".maxEntries", "want a positive number, have %d", r.MaxEntries)
	}
	r.Notify.check(path+".notify", v)
}

func (n *Notify) check(path string, v *Validator) {
	if v.Set(path+".url") && v.Set(path+".tool") {
		v.Report(path+".tool", "want either url or tool, have both")
	}
	if v.Set(path + ".url") {
		v.URL(path+".url", n.URL)
	}
	if _, _, ok := n.Target(); v.Set(path+".tool") && !ok {
		v.Report(path+".tool", "want backend.tool, have %q", n.Tool)
	}
	for i, e := range n.Events {
		if !slices.Contains(runEvents, e) {
			v.Report(document.IndexPath(path+".events", i), "want waiting, doubt or failed, have %q", e)
		}
	}
	if len(n.Events) > 0 && n.URL == "" && n.Tool == "" {
		v.Report(path, "want url or tool: who is notified")
	}
}

// Target is the tool that is called and its backend; ok reports whether there is one.
func (n *Notify) Target() (backend, tool string, ok bool) {
	backend, tool, _ = strings.Cut(n.Tool, ".")
	return backend, tool, tool != ""
}
