package resolve

import (
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
)

// incoming converts the incomingAuth of an object to that of a configuration, and returns the secrets in it. A field
// that cannot be converted is a finding, so that the server is not served: nothing is dropped silently.
func (l lookup) incoming(a *object.IncomingAuth, f *finding) (config.IncomingAuth, []string) {
	const at = "spec.incomingAuth"
	if a == nil {
		f.add(object.ReasonAuthNotCarried, at, "nothing says who may come in")
		return config.IncomingAuth{}, nil
	}
	out := config.IncomingAuth{Type: a.Type}
	var secrets []string
	if a.Type == object.OIDC && a.OIDCConfigRef != nil {
		out.OIDC, secrets = l.issuer(a.OIDCConfigRef, f)
	}
	if a.AuthzConfigRef != nil {
		f.add(object.ReasonAuthNotCarried, at+".authzConfigRef", "MCPAuthzConfig %s is not read here, and without its policies everything would be allowed: put them into authzConfig", a.AuthzConfigRef.Name)
	}
	if a.AuthzConfig != nil {
		out.Authz = l.authz(a.AuthzConfig, f)
	}
	return out, secrets
}

// issuer converts the MCPOIDCConfig that ref names, and returns the client secret in it.
func (l lookup) issuer(ref *object.OIDCConfigRef, f *finding) (config.OIDC, []string) {
	const at = "spec.incomingAuth.oidcConfigRef"
	i := l.state.OIDC[ref.Name]
	switch {
	case i == nil && l.offline:
		return config.OIDC{}, nil
	case i == nil:
		f.add(object.ReasonRefNotFound, at, "there is no MCPOIDCConfig %s", ref.Name)
		return config.OIDC{}, nil
	case i.Problem.Message != "":
		f.add(i.Problem.Reason, at, "%s", i.Problem.Message)
		return config.OIDC{}, nil
	}
	o := i.Config
	o.Audience, o.Scopes, o.Resource = ref.Audience, ref.Scopes, ref.ResourceURL
	o.CAText = l.caBundle(i.CABundle, at, f)
	if i.ClientSecret == nil {
		return o, nil
	}
	o.Secret = l.secret(*i.ClientSecret, at, f)
	return o, []string{o.Secret}
}

// authz reads the policies of an object, inline or from a ConfigMap.
func (l lookup) authz(a *object.AuthzConfig, f *finding) config.Authz {
	z := config.Authz{Type: "cedar", GroupClaimName: a.GroupClaimName, RoleClaimName: a.RoleClaimName, GroupEntityType: a.GroupEntityType}
	if a.Inline != nil {
		z.Policies, z.EntitiesJSON = a.Inline.Policies, a.Inline.EntitiesJSON
		return z
	}
	const at = "spec.incomingAuth.authzConfig.configMap"
	if a.ConfigMap == nil {
		f.add(object.ReasonAuthNotCarried, at, "nothing says where the policies are")
		return z
	}
	ref := config.KeyRef{Name: a.ConfigMap.Name, Key: a.ConfigMap.Key}
	if ref.Key == "" {
		ref.Key = defaultAuthzKey
	}
	text, of, _ := l.text(ref, at, f)
	if of != nil && !f.found() {
		readPolicies(text, &z, ref, f)
	}
	return z
}

// readPolicies reads policies in ToolHive's format, JSON or YAML, from the text of a ConfigMap.
func readPolicies(text string, z *config.Authz, ref config.KeyRef, f *finding) {
	const at = "spec.incomingAuth.authzConfig.configMap"
	var file struct {
		Type  string `json:"type"`
		Cedar struct {
			Policies        []string `json:"policies"`
			EntitiesJSON    string   `json:"entities_json"`
			GroupClaimName  string   `json:"group_claim_name"`
			RoleClaimName   string   `json:"role_claim_name"`
			GroupEntityType string   `json:"group_entity_type"`
		} `json:"cedar"`
	}
	err := yaml.Unmarshal([]byte(text), &file)
	c := file.Cedar
	switch {
	case err != nil:
		f.add(object.ReasonAuthNotCarried, at, "key %s of ConfigMap %s cannot be read as policies: it is neither JSON nor YAML", ref.Key, ref.Name)
	case file.Type != "cedarv1":
		f.add(object.ReasonAuthNotCarried, at, "key %s of ConfigMap %s has type %q; want cedarv1", ref.Key, ref.Name, file.Type)
	case len(strings.TrimSpace(strings.Join(c.Policies, ""))) == 0:
		f.add(object.ReasonAuthNotCarried, at, "key %s of ConfigMap %s has no policies", ref.Key, ref.Name)
	}
	z.Policies, z.EntitiesJSON = c.Policies, c.EntitiesJSON
	for _, field := range []struct {
		into *string
		text string
	}{{&z.GroupClaimName, c.GroupClaimName}, {&z.RoleClaimName, c.RoleClaimName}, {&z.GroupEntityType, c.GroupEntityType}} {
		if field.text != "" {
			*field.into = field.text
		}
	}
}
