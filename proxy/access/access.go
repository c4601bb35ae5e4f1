// Package access asks the policies of a configuration for the proxy: who somebody is to them, what
// that principal sees of a catalog, and whether a call may be made.
//
//	rules, problems := access.Compile(cfg, log)
//	who := rules.Who(principal, "")
//	e := who.View(c, "").Find(catalog.Tool("github_search"))
//	d := who.Decide(c, e, arguments)
//
// Without policies there are no rules: a nil *Rules and a nil *Who allow everything, and cost
// nothing.
package access

import (
	"encoding/json"
	"log/slog"
	"slices"
	"sync"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/policy"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// Anonymous is the subject of who comes in without authentication.
const Anonymous = builtins.Anonymous

// Rules are the policies of one configuration. They do not change, and are safe for concurrent use.
type Rules struct {
	set    *policy.Set
	owner  bool // the calls inside of a script need no right of its caller
	admins config.Admins
	known  known
}

// Compile reads the policies of a configuration. The problems are errors, with which there are no
// rules, and warnings. The rules are nil, too, where the configuration has no policies.
func Compile(cfg *config.Config, log *slog.Logger) (*Rules, diag.Problems) {
	set, problems := policy.Compile(cfg)
	if set == nil {
		return nil, problems
	}
	set.OnFailure = func(policy, err string) {
		log.Warn("the condition of a policy cannot be evaluated: a permit does not hold then, and a forbid denies; this is logged once", "policy", policy, "err", err)
	}
	a := &cfg.IncomingAuth.Authz
	return &Rules{set: set, owner: a.Scripts == "owner", admins: a.Admins}, problems
}

// A Who is a principal as the policies in force know it. It is safe for concurrent use.
type Who struct {
	rules     *Rules
	principal *policy.Principal
	admin     bool
}

// Who is a principal as r knows it, who uses the endpoint through a profile; nil is anonymous, "" none.
func (r *Rules) Who(p *auth.Principal, profile string) *Who {
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

func (r *Rules) isAdmin(p *auth.Principal) bool {
	return p != nil && (slices.Contains(r.admins.Subjects, p.Subject) ||
		slices.ContainsFunc(p.Groups, func(g string) bool { return slices.Contains(r.admins.Groups, g) }))
}

// View is what the principal sees of a catalog through a profile; "" is none.
func (w *Who) View(c *catalog.Catalog, profile string) *catalog.View {
	if w == nil {
		return c.Through(profile)
	}
	return c.View(w.rules.set, w.principal, profile)
}

// Decide says whether the principal may use an entry with these arguments, nil for none. c is the
// catalog that it was found in.
func (w *Who) Decide(c *catalog.Catalog, e *catalog.Entry, arguments json.RawMessage) policy.Decision {
	if !w.rules.set.ReadsArguments(e.Kind) {
		return w.View(c, "").Decision(e)
	}
	return w.rules.set.Decide(w.principal, e.InPolicies(w.rules.set), arguments)
}

// ScriptsAreOwners reports whether calls inside of scripts need no right of the caller.
func (w *Who) ScriptsAreOwners() bool { return w != nil && w.rules.owner }

// SeesTraces reports whether the principal may see what runs did, hidden tools included.
func (w *Who) SeesTraces() bool { return w == nil || w.admin }

// known are the principals that were asked about, by what of them policies can read. The newest
// are kept: of those that are not, the next question makes them anew.
type known struct {
	mu       sync.Mutex
	now, old map[key]*Who // guarded by mu
}

// maxKnown bounds each of the two generations.
const maxKnown = 5000

// key is a principal as its credential was verified: one pointer lives as long as the verdict on
// a token. Those who bring no token have nothing but a name, and are made for each request.
type key struct {
	principal       *auth.Principal
	issuer, subject string
	profile         string
}

func keyOf(p *auth.Principal) key {
	if p != nil && len(p.Claims)+len(p.Groups)+len(p.Scopes)+len(p.Client) == 0 {
		return key{issuer: p.Issuer, subject: p.Subject}
	}
	return key{principal: p}
}

func (k *known) find(of key) *Who {
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

func (k *known) add(of key, who *Who) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.put(of, who)
}

// put keeps a principal among the newest. mu is held.
func (k *known) put(of key, who *Who) {
	if k.now == nil || len(k.now) == maxKnown {
		k.now, k.old = map[key]*Who{}, k.now
	}
	k.now[of] = who
}
