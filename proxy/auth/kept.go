package auth

import (
	"encoding/json"
	"fmt"
	"time"
)

// kept is the JSON form of a principal, for what outlives its request.
type kept struct {
	Issuer  string         `json:"issuer"`
	Subject string         `json:"subject"`
	Groups  []string       `json:"groups,omitempty"`
	Scopes  []string       `json:"scopes,omitempty"`
	Client  string         `json:"client,omitempty"`
	Claims  map[string]any `json:"claims,omitempty"`
	Expires time.Time      `json:"expires,omitzero"`
}

// Encode returns the principal as JSON, without its credential, for work that outlives the
// request; nil for anonymous.
func (p *Principal) Encode() json.RawMessage {
	if p == nil {
		return nil
	}
	text, err := json.Marshal(kept{p.Issuer, p.Subject, p.Groups, p.Scopes, p.Client, p.Claims, p.Expires})
	if err != nil {
		panic(err) // impossible: strings, and claims that were read as JSON
	}
	return text
}

// Decode returns the principal of an Encode; nil for no text.
func Decode(text json.RawMessage) (*Principal, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("stored principal: %w", err)
	}
	return newPrincipal(Principal{Issuer: k.Issuer, Subject: k.Subject, Groups: k.Groups, Scopes: k.Scopes, Client: k.Client, Claims: k.Claims, Expires: k.Expires}), nil
}
