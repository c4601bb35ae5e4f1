package proxy

import (
	"encoding/json"
	"log/slog"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

// This part of the package evaluates the policies of a configuration for the proxy: the identity of a principal, what it sees of
// a catalog, and whether it may make a call.
//
//	rules, problems := access.Compile(cfg, log)
//	who := rules.Who(principal, "")
//	e := who.View(c, "").Find(catalog.Tool("github_search"))
//	d := who.Decide(c, e, arguments)
//
// A configuration without policies has no rules: a nil *Rules and a nil *Who allow everything, at no cost.

// Anonymous is the subject of a client without authentication.
const Anonymous = builtins.Anonymous

// AccessRules are the policies of one configuration. Immutable, and safe for concurrent use.
type AccessRules struct {
	set    *policy.Set
	owner  bool // calls made by scripts need no permission of the caller
	admins config.Admins
	known  known
}

// Compile compiles the policies of a configuration. The problems are warnings, or errors, in which case the rules are
// nil. The rules are also nil if the configuration has no policies.
func Compile(cfg *config.Config, log *slog.Logger) (*AccessRules, diag.Problems) {
	set, problems := policy.Compile(cfg)
	if set == nil {
		return nil, problems
	}
	set.OnFailure = func(policy, err string) {
		log.Warn("the condition of a policy cannot be evaluated: a permit with it does not apply, and a forbid denies; logged once per policy", "policy", policy, "err", err)
	}
	a := &cfg.IncomingAuth.Authz
	return &AccessRules{set: set, owner: a.Scripts == "owner", admins: a.Admins}, problems
}

// A Who is a principal as the current policies identify it. It is safe for concurrent use.
type Who struct {
	rules     *AccessRules
	principal *policy.Principal
	admin     bool
}

// Who returns the identity of a principal (nil: anonymous) that uses the endpoint through a profile ("": none).
func (r *AccessRules) Who(p *auth.Principal, profile string) *Who {
	if r == nil {
		return nil
	}
	key := keyOf(p)
	key.profile = profile
	if who := r.known.find(key); who != nil {
		return who
	}
	who := &Who{rules: r, principal: r.set.Principal(identityOf(p, profile)), admin: r.isAdmin(p)}
	r.known.add(key, who)
	return who
}

func identityOf(p *auth.Principal, profile string) policy.Identity {
	if p == nil {
		return policy.Identity{Subject: Anonymous, Profile: profile}
	}
	return policy.Identity{Issuer: p.Issuer, Subject: p.Subject, Groups: p.Groups, Scopes: p.Scopes, Client: p.Client, Claims: p.Claims, Profile: profile}
}

func (r *AccessRules) isAdmin(p *auth.Principal) bool {
	return p != nil && (slices.Contains(r.admins.Subjects, p.Subject) ||
		slices.ContainsFunc(p.Groups, func(g string) bool { return slices.Contains(r.admins.Groups, g) }))
}

// View returns what the principal sees of a catalog through a profile ("": none).
func (w *Who) View(c *catalog.Catalog, profile string) *catalog.View {
	if w == nil {
		return c.Through(profile)
	}
	return c.View(w.rules.set, w.principal, profile)
}

// Decide returns whether the principal may use the entry e of the catalog c with these arguments (nil: none).
func (w *Who) Decide(c *catalog.Catalog, e *catalog.Entry, arguments json.RawMessage) policy.Decision {
	if !w.rules.set.ReadsArguments(e.Kind) {
		return w.View(c, "").Decision(e)
	}
	return w.rules.set.Decide(w.principal, e.InPolicies(w.rules.set), arguments)
}

// ScriptsAreOwners reports whether calls made by scripts need no permission of the caller.
func (w *Who) ScriptsAreOwners() bool { return w != nil && w.rules.owner }

// SeesTraces reports whether the principal may see what runs did, including calls of hidden tools.
func (w *Who) SeesTraces() bool { return w == nil || w.admin }

// known caches the Who of recent principals, by the attributes that policies can read, in two generations: one that is
// dropped is built again when it is needed.
type known struct {
	mu       sync.Mutex
	now, old map[accessKey]*Who // guarded by mu
}

// maxKnown bounds the entries of each of the two generations.
const maxKnown = 5000

// accessKey identifies a verified principal: the pointer is the same as long as the verification of a token is cached.
// Principals without a token have only a name, and their Who is built for each request.
type accessKey struct {
	principal       *auth.Principal
	issuer, subject string
	profile         string
}

func keyOf(p *auth.Principal) accessKey {
	if p != nil && len(p.Claims)+len(p.Groups)+len(p.Scopes)+len(p.Client) == 0 {
		return accessKey{issuer: p.Issuer, subject: p.Subject}
	}
	return accessKey{principal: p}
}

func (k *known) find(of accessKey) *Who {
	k.mu.Lock()
	defer k.mu.Unlock()
	if who := k.now[of]; who != nil {
		return who
	}
	who := k.old[of]
	if who != nil {
		k.put(of, who)
	}
	return who
}

func (k *known) add(of accessKey, who *Who) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.put(of, who)
}

// put adds a principal to the newer generation. mu is held.
func (k *known) put(of accessKey, who *Who) {
	if k.now == nil || len(k.now) == maxKnown {
		k.now, k.old = map[accessKey]*Who{}, k.now
	}
	k.now[of] = who
}
