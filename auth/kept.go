package auth

import (
	"encoding/json"
	"fmt"
	"time"
)

// kept is what of a principal outlives its request.
type kept struct {
	Issuer  string         `json:"issuer"`
	Subject string         `json:"subject"`
	Groups  []string       `json:"groups,omitempty"`
	Scopes  []string       `json:"scopes,omitempty"`
	Client  string         `json:"client,omitempty"`
	Claims  map[string]any `json:"claims,omitempty"`
	Expires time.Time      `json:"expires,omitzero"`
}

// Keep is the principal as something keeps it that goes on when its request is over, without its
// credential; nil for nobody.
func (p *Principal) Keep() json.RawMessage {
	if p == nil {
		return nil
	}
	text, err := json.Marshal(kept{p.Issuer, p.Subject, p.Groups, p.Scopes, p.Client, p.Claims, p.Expires})
	if err != nil {
		panic(err) // texts, and claims that were read as JSON
	}
	return text
}

// Kept is the principal that Keep has made text of; nil for no text.
func Kept(text json.RawMessage) (*Principal, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("a kept principal: %w", err)
	}
	return newPrincipal(Principal{Issuer: k.Issuer, Subject: k.Subject, Groups: k.Groups, Scopes: k.Scopes, Client: k.Client, Claims: k.Claims, Expires: k.Expires}), nil
}
