package auth

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// Each profile of the endpoint is a separate protected resource (RFC 9728), below that of the
// endpoint: https://mcp.example.com/mcp/office below https://mcp.example.com/mcp. A token for the
// endpoint is valid for all of its profiles, and one for a profile (RFC 8707) for that one only.

// audiences are the accepted audiences of tokens.
type audiences struct {
	endpoint []string // a token whose aud has one of them is for the endpoint
	below    string   // the prefix of the profiles' resources; "": they have none
}

// accept reports whether a token with the audiences aud is accepted; only has the profiles that it is
// for, nil means all.
func (a audiences) accept(aud []string) (only []string, ok bool) {
	if overlap(aud, a.endpoint) {
		return nil, true
	}
	for _, s := range aud {
		name, is := strings.CutPrefix(s, a.below)
		if is && a.below != "" && name != "" && !strings.Contains(name, "/") {
			only = append(only, name)
		}
	}
	return only, len(only) > 0
}

// AuthenticateAt is Authenticate for a request of a profile; "" is the endpoint itself.
func (a *Authenticator) AuthenticateAt(profile string, r *http.Request) (*Principal, error) {
	p, err := a.authenticate(r)
	return a.within(profile, p, err)
}

// VerifyAt is Verify for a profile; "" is the endpoint itself.
func (a *Authenticator) VerifyAt(ctx context.Context, profile, token string) (*Principal, error) {
	p, err := a.verify(ctx, token)
	return a.within(profile, p, err)
}

// within refuses a principal whose token is for other profiles.
func (a *Authenticator) within(profile string, p *Principal, err error) (*Principal, error) {
	if err != nil || p == nil || p.only == nil || slices.Contains(p.only, profile) {
		return p, err
	}
	return nil, a.challenged(errAudience)
}
