package auth

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Codes of a refusal (RFC 6750, section 3.1).
const (
	invalidRequest    = "invalid_request"
	invalidToken      = "invalid_token"
	insufficientScope = "insufficient_scope"
)

// Refusal is why a request is refused, and the response to its client.
type Refusal struct {
	// Status is the HTTP status: 400, 401, 403 or 503.
	Status int
	// Code is one of the codes above; "" for a request without a credential, and for 503.
	Code string
	// Description is one of a fixed list of texts, so that it contains no part of the token.
	Description string
	// Scopes are all scopes that the operation needs.
	Scopes []string
	// RetryAfter is the wait before a retry, for 503.
	RetryAfter time.Duration
	// NoToken is set when no bearer token would be accepted, so that there is no challenge.
	NoToken bool
	// Cause is for the log, never for the client.
	Cause error
}

func (r *Refusal) Error() string {
	if r.Description == "" {
		return "authentication required"
	}
	return r.Description
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Cause }

// SetHeader sets the challenge (RFC 6750, section 3, and RFC 9728, section 5.1) and
// Retry-After. metadata is the URL of the resource's metadata, "" for none.
func (r *Refusal) SetHeader(h http.Header, metadata string) {
	if r.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((r.RetryAfter+time.Second-1)/time.Second)))
	}
	if r.NoToken {
		return
	}
	switch r.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
	default:
		return
	}
	var params []string
	add := func(name, value string) {
		if value != "" {
			params = append(params, fmt.Sprintf("%s=%q", name, value))
		}
	}
	add("error", r.Code)
	add("error_description", r.Description)
	add("scope", strings.Join(r.Scopes, " "))
	add("resource_metadata", metadata)
	h.Set("WWW-Authenticate", strings.TrimSpace("Bearer "+strings.Join(params, ", ")))
}

func invalid(description string) *Refusal {
	return &Refusal{Status: http.StatusUnauthorized, Code: invalidToken, Description: description}
}

func (r *Refusal) because(err error) *Refusal {
	c := *r
	c.Cause = err
	return &c
}

// Refusals with the descriptions that clients see.
var (
	errNoCredential  = &Refusal{Status: http.StatusUnauthorized}
	errNoCertificate = &Refusal{Status: http.StatusUnauthorized, NoToken: true, Description: "a client certificate is required"}
	errTwoHeaders    = &Refusal{Status: http.StatusBadRequest, Code: invalidRequest, Description: "more than one Authorization header"}
	errInQuery       = &Refusal{Status: http.StatusBadRequest, Code: invalidRequest, Description: "a token in the query string is not accepted: use the Authorization header"}
	errMalformed     = invalid("the token is malformed")
	errUnknown       = invalid("the token is unknown")
	errSignature     = invalid("the signature is not valid")
	errAlgorithm     = invalid("the signature algorithm is not accepted")
	errKey           = invalid("the signing key is unknown")
	errHeader        = invalid("the token's header has members that are not accepted")
	errKind          = invalid("this is not an access token")
	errIssuer        = invalid("the issuer is not accepted")
	errAudience      = invalid("the token is for another audience")
	errExpired       = invalid("the token has expired")
	errNotYet        = invalid("the token is not valid yet")
	errClaims        = invalid("a claim is missing or of the wrong type")
	errInactive      = invalid("the token is not active")
)

// unavailable is the refusal while the issuer cannot be reached. It has no challenge, which
// would make a client discard its token and ask its user to log in.
func unavailable(cause error) *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Description: "the identity provider cannot be reached", RetryAfter: 5 * time.Second, Cause: cause}
}
