package edge

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/auth"
)

// This part of the package decides who reaches the page and the API for operators, which show the activity of all clients and allow
// to call tools.
//
//	who, err := g.Admit(r, rules, gate.Operators)
//
// They are served only:
//
//   - on the port of admin.listen: whoever has the token of admin.tokenFile, or a credential of a principal with the admin
//     role (incomingAuth.authz.admins, or the user of this machine). Where neither a token nor authentication is
//     configured, whoever connects over the loopback interface or a Unix socket.
//   - without admin.listen, on the clients' port: whoever connects over the loopback interface to a loopback name, and
//     brings such a credential if clients have to bring one.
//
// A browser cannot send a bearer token by itself. It gets a session cookie ([Gate.Login]) that is HttpOnly and
// SameSite. The cookie names a session in this process and does not contain the token: revoking a token ends its
// sessions.
//
// A page of another site can send requests to any address that its visitor reaches. Hence Host is checked by the rules
// of package origin; a request with another Origin is refused, and so is one that the browser marks as cross-site
// (Sec-Fetch-Site), except when the user follows a link.

// Rules are the settings of a configuration for the gate.
type Rules struct {
	Policy *Policy
	Auth   *auth.Authenticator
	Admins config.Admins // principals with the admin role
	Apart  bool          // admin.listen is set
	Token  *Token        // of admin.tokenFile; nil: there is none
}

// A Port identifies the listener of a request.
type Port int

// The ports.
const (
	Clients   Port = iota // the endpoint's
	operators             // that of admin.listen
)

// GateRefusal is the reason why a request is not admitted.
type GateRefusal struct {
	Status int
	Reason string
	Hint   string
	Login  bool // a credential would admit it
}

func (r *GateRefusal) Error() string { return r.Reason }

// Gate admits requests. Make one with New; it is safe for concurrent use.
type Gate struct{ sessions gateSessions }

// NewGate makes a Gate.
func NewGate() *Gate { return &Gate{sessions: newSessions()} }

// Admit returns the principal of a request; nil, without an error, if none is required. The error is a *Refusal.
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

// Operator reports whether a program may read what is not part of the page, such as metrics, on the port of
// admin.listen: with the token, or that of an admin. If no token is configured, loopback connections need none.
func (rules *Rules) Operator(r *http.Request) bool {
	if rules.Token == nil && (onLoopback(r) || isUnix(r)) {
		return true
	}
	token, ok := bearer(r)
	if !ok {
		return false
	}
	_, err := rules.holder(r, token)
	return err == nil
}

// reach checks the address of the connection and the Host.
func (rules *Rules) reach(r *http.Request, port Port) error {
	switch loopback := onLoopback(r) || isUnix(r); {
	case port == Clients && rules.Apart:
		return &GateRefusal{Status: http.StatusNotFound, Reason: "not on this port: see admin.listen of the configuration"}
	case port == Clients && !loopback:
		return &GateRefusal{Status: http.StatusForbidden, Reason: "other machines reach this address: the page and the API for operators are not served on it", Hint: "set admin.listen to serve them on a port of their own, or listen on 127.0.0.1"}
	case port == Clients && !IsLocal(r) && !isUnix(r):
		return &GateRefusal{Status: http.StatusForbidden, Reason: "the page and the API for operators are served for loopback names on this machine only, and not through a proxy", Hint: "set admin.listen to serve them on a port of their own"}
	case !loopback && rules.Token == nil && rules.Auth.Open():
		return &GateRefusal{Status: http.StatusForbidden, Reason: "other machines reach this address, and no credential is required", Hint: "set admin.tokenFile, or listen on 127.0.0.1"}
	}
	host := r.Clone(r.Context())
	host.Header.Del("Origin") // fromHere is stricter
	if _, err := rules.Policy.Check(host); err != nil && !isUnix(r) {
		return &GateRefusal{Status: http.StatusForbidden, Reason: err.Error()}
	}
	return nil
}

// fromHere refuses what a page of another origin has sent.
func fromHere(r *http.Request) error {
	same := r.Header.Get("Sec-Fetch-Site") == "same-origin"
	for _, line := range r.Header["Origin"] {
		if line == "null" && same {
			continue // a form on a page without a referrer
		}
		u, err := url.Parse(line)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) || u.Scheme != scheme(r) {
			return &GateRefusal{Status: http.StatusForbidden, Reason: "the request comes from a page of another origin, " + line}
		}
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site == "" || site == "same-origin" || site == "none" && reads:
		return nil
	case reads && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document":
		return nil // the user followed a link
	default:
		return &GateRefusal{Status: http.StatusForbidden, Reason: "the request comes from another site (Sec-Fetch-Site: " + site + ")"}
	}
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// credential verifies the credential of a request, from the header, the cookie or the certificate.
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
	who, err := rules.Auth.Authenticate(r) // a client certificate
	if err != nil {
		return nil, rules.unknown("want a token as Authorization: Bearer")
	}
	return rules.admitted(who)
}

// bearer is the bearer token in the header of a request.
func bearer(r *http.Request) (token string, ok bool) {
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return "", len(lines) > 1
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// holder verifies a token and returns its principal.
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
		return nil, &GateRefusal{Status: http.StatusForbidden, Reason: "the principal does not have the admin role", Hint: "incomingAuth.authz.admins of the configuration lists the admins"}
	}
	return who, nil
}

// isAdmin reports whether a principal has the admin role. The user of this machine (incomingAuth.type: local) has it.
func (rules *Rules) isAdmin(who *auth.Principal) bool {
	if who == nil {
		return false
	}
	return who.Issuer == auth.IssuerLocal || slices.Contains(rules.Admins.Subjects, who.Subject) ||
		slices.ContainsFunc(who.Groups, func(g string) bool { return slices.Contains(rules.Admins.Groups, g) })
}

func (rules *Rules) unknown(reason string) error {
	return &GateRefusal{Status: http.StatusUnauthorized, Reason: reason, Login: true}
}
