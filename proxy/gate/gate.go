// Package gate decides who reaches the page and the API for operators, which show what everybody does and let tools be
// called.
//
//	who, err := g.Admit(r, rules, gate.Operators)
//
// They are served to nobody but:
//
//   - on the port of admin.listen: whoever has the token of admin.tokenFile, or a credential of a principal with the admin
//     role (incomingAuth.authz.admins, or the user of this machine). Where neither a token nor authentication is
//     configured, whoever connects over the loopback interface or a Unix socket.
//   - without admin.listen, on the clients' port: whoever connects over the loopback interface to a loopback name, and
//     brings such a credential if clients have to bring one.
//
// A browser cannot send a token by itself. It gets a cookie for one ([Gate.Login]) that no script can read and that no
// other site can have sent. The cookie names a session here, never the token: a token that is withdrawn ends its
// sessions.
//
// A page of another site can send requests to any address that its visitor reaches. Hence Host is held to the rules of
// package origin; an Origin other than this one is refused for every request, and so is what a browser says comes from
// another site (Sec-Fetch-Site), except for somebody who follows a link.
package gate

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/origin"
)

// Rules are what of a configuration decides.
type Rules struct {
	Policy *origin.Policy
	Auth   *auth.Authenticator
	Admins config.Admins // who has the admin role
	Apart  bool          // admin.listen is set
	Token  *Token        // of admin.tokenFile; nil: there is none
}

// A Port is where a request came in.
type Port int

// The ports.
const (
	Clients   Port = iota // of the endpoint
	Operators             // of admin.listen
)

// Refusal is why a request does not come in.
type Refusal struct {
	Status int
	Reason string
	Hint   string
	Login  bool // a credential would let it in
}

func (r *Refusal) Error() string { return r.Reason }

// Gate lets requests in. Make one with New; it is safe for concurrent use.
type Gate struct{ sessions sessions }

// New makes a Gate.
func New() *Gate { return &Gate{sessions: newSessions()} }

// Admit says who asks. nil without an error is somebody who need not say so. The error is a *Refusal.
func (g *Gate) Admit(r *http.Request, rules *Rules, port Port) (*auth.Principal, error) {
	if err := rules.reach(r, port); err != nil {
		return nil, err
	}
	if err := fromHere(r); err != nil {
		return nil, err
	}
	if rules.Token == nil && rules.Auth.Open() {
		return rules.Auth.Unasked(), nil
	}
	return g.credential(r, rules)
}

// Operator reports whether a program may have what is no part of the page on the port of admin.listen, such as metrics:
// with the token, or that of an admin. Where there is no token, this machine may without.
func (rules *Rules) Operator(r *http.Request) bool {
	if rules.Token == nil && (origin.OnLoopback(r) || isUnix(r)) {
		return true
	}
	token, ok := bearer(r)
	if !ok {
		return false
	}
	_, err := rules.holder(r, token)
	return err == nil
}

// reach holds a request to the address that it came to and the name that it asks for.
func (rules *Rules) reach(r *http.Request, port Port) error {
	switch loopback := origin.OnLoopback(r) || isUnix(r); {
	case port == Clients && rules.Apart:
		return &Refusal{Status: http.StatusNotFound, Reason: "not on this port: admin.listen of the configuration says where"}
	case port == Clients && !loopback:
		return &Refusal{Status: http.StatusForbidden, Reason: "other machines reach this address, and the page and the API for operators are not for them", Hint: "set admin.listen to serve them on a port of their own, or listen on 127.0.0.1"}
	case port == Clients && !origin.IsLocal(r) && !isUnix(r):
		return &Refusal{Status: http.StatusForbidden, Reason: "the page and the API for operators are for loopback names on this machine, and for nothing that a proxy passes on", Hint: "set admin.listen to serve them on a port of their own"}
	case !loopback && rules.Token == nil && rules.Auth.Open():
		return &Refusal{Status: http.StatusForbidden, Reason: "other machines reach this address, and nobody is asked who they are", Hint: "set admin.tokenFile, or listen on 127.0.0.1"}
	}
	host := r.Clone(r.Context())
	host.Header.Del("Origin") // fromHere is stricter
	if _, err := rules.Policy.Check(host); err != nil && !isUnix(r) {
		return &Refusal{Status: http.StatusForbidden, Reason: err.Error()}
	}
	return nil
}

// fromHere refuses what a page of another origin sends.
func fromHere(r *http.Request) error {
	same := r.Header.Get("Sec-Fetch-Site") == "same-origin"
	for _, line := range r.Header["Origin"] {
		if line == "null" && same {
			continue // a form of a page without referrer
		}
		u, err := url.Parse(line)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) || u.Scheme != scheme(r) {
			return &Refusal{Status: http.StatusForbidden, Reason: "a page of another origin, " + line + ", has sent this"}
		}
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site == "" || site == "same-origin" || site == "none" && reads:
		return nil
	case reads && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document":
		return nil // a link
	default:
		return &Refusal{Status: http.StatusForbidden, Reason: "the browser says that another site has sent this (Sec-Fetch-Site: " + site + ")"}
	}
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// credential finds out who brings which credential.
func (g *Gate) credential(r *http.Request, rules *Rules) (*auth.Principal, error) {
	if token, ok := bearer(r); ok {
		return rules.holder(r, token)
	}
	if token, ok := g.sessions.token(r); ok {
		return rules.holder(r, token)
	}
	if rules.Auth.Open() {
		return nil, rules.unknown("want the token of admin.tokenFile as Authorization: Bearer")
	}
	who, err := rules.Auth.Authenticate(r) // by a certificate
	if err != nil {
		return nil, rules.unknown("want a token as Authorization: Bearer")
	}
	return rules.admitted(who)
}

// bearer is the token that a request brings by itself.
func bearer(r *http.Request) (token string, ok bool) {
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return "", len(lines) > 1
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// holder is who has a token.
func (rules *Rules) holder(r *http.Request, token string) (*auth.Principal, error) {
	if rules.Token != nil && rules.Token.Accepts(token) {
		return rules.Auth.Unasked(), nil
	}
	if rules.Auth.Open() {
		return nil, rules.unknown("this is not the token of admin.tokenFile")
	}
	who, err := rules.Auth.Verify(r.Context(), token)
	if err != nil {
		return nil, rules.unknown("this token is not accepted")
	}
	return rules.admitted(who)
}

func (rules *Rules) admitted(who *auth.Principal) (*auth.Principal, error) {
	if !rules.isAdmin(who) {
		return nil, &Refusal{Status: http.StatusForbidden, Reason: "this is for admins", Hint: "incomingAuth.authz.admins of the configuration names them"}
	}
	return who, nil
}

// isAdmin reports whether a principal has the admin role. The user of this machine has.
func (rules *Rules) isAdmin(who *auth.Principal) bool {
	if who == nil {
		return false
	}
	return who.Issuer == auth.IssuerLocal || slices.Contains(rules.Admins.Subjects, who.Subject) ||
		slices.ContainsFunc(who.Groups, func(g string) bool { return slices.Contains(rules.Admins.Groups, g) })
}

func (rules *Rules) unknown(reason string) error {
	return &Refusal{Status: http.StatusUnauthorized, Reason: reason, Login: true}
}
