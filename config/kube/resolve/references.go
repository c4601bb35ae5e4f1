package resolve

import (
	"maps"
	"slices"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
)

// references collects the names of ConfigMaps and Secrets.
type references struct {
	configMaps, secrets map[string]bool
}

// FindReferences finds the ConfigMaps and Secrets that the objects of a state refer to.
func FindReferences(s *State) References {
	r := references{map[string]bool{}, map[string]bool{}}
	for _, o := range s.Servers {
		r.server(&o.Spec)
	}
	for _, o := range s.Entries {
		r.entry(&o.Spec)
	}
	for _, o := range s.Scripted {
		r.text(o.Spec.ScriptFrom)
	}
	for _, t := range s.ToolHive {
		r.server(&t.Spec)
		for i := range t.Backends {
			r.entry(&t.Backends[i].Spec)
		}
	}
	for _, i := range s.OIDC {
		r.caBundle(i.CABundle)
		r.secret(i.ClientSecret)
	}
	return References{slices.Sorted(maps.Keys(r.configMaps)), slices.Sorted(maps.Keys(r.secrets))}
}

func (r references) server(s *object.ServerSpec) {
	for i := range s.Config.ScriptedTools {
		r.text(s.Config.ScriptedTools[i].ScriptFrom)
	}
	for i := range s.Config.Libraries {
		r.text(s.Config.Libraries[i].SourceFrom)
	}
	o := s.Config.OutgoingAuth
	for _, strategy := range append(slices.Collect(maps.Values(o.Backends)), o.Default) {
		for _, ref := range secretsOf("", &strategy) {
			r.secret(ref.ref)
		}
	}
	if a := s.IncomingAuth; a != nil && a.AuthzConfig != nil && a.AuthzConfig.ConfigMap != nil {
		r.configMap(a.AuthzConfig.ConfigMap.Name)
	}
}

func (r references) entry(s *object.EntrySpec) {
	for i := range s.HeaderForward.AddHeadersFromSecret {
		r.secret(&s.HeaderForward.AddHeadersFromSecret[i].ValueSecretRef)
	}
	if s.CABundleRef != nil {
		r.caBundle(&s.CABundleRef.ConfigMapRef)
	}
}

func (r references) text(from *config.TextSource) {
	if from != nil {
		r.configMap(from.ConfigMapKeyRef.Name)
	}
}

func (r references) caBundle(key *object.CABundleKey) {
	if key != nil {
		r.configMap(key.Name)
	}
}

func (r references) secret(ref *config.KeyRef) {
	if ref != nil && ref.Name != "" {
		r.secrets[ref.Name] = true
	}
}

func (r references) configMap(name string) {
	if name != "" {
		r.configMaps[name] = true
	}
}

// A secretRef is a reference of outgoingAuth to a Secret.
type secretRef struct {
	path string
	ref  *config.KeyRef
	into *string // the field that the value is copied to
}

// secretsOf returns the references to Secrets that are set in a strategy at path.
func secretsOf(path string, s *config.OutgoingStrategy) (found []secretRef) {
	for _, r := range []secretRef{
		{path + ".headerInjection.valueSecretRef", s.HeaderInjection.ValueSecretRef, &s.HeaderInjection.Secret},
		{path + ".clientCredentials.clientSecretRef", s.ClientCredentials.ClientSecretRef, &s.ClientCredentials.Secret},
		{path + ".tokenExchange.clientSecretRef", s.TokenExchange.ClientSecretRef, &s.TokenExchange.Secret},
		{path + ".tokenExchange.discovery.headerInjection.valueSecretRef", s.TokenExchange.Discovery.HeaderInjection.ValueSecretRef, &s.TokenExchange.Discovery.HeaderInjection.Secret},
		{path + ".tokenExchange.discovery.clientCredentials.clientSecretRef", s.TokenExchange.Discovery.ClientCredentials.ClientSecretRef, &s.TokenExchange.Discovery.ClientCredentials.Secret},
		{path + ".oauth.clientSecretRef", s.OAuth.ClientSecretRef, &s.OAuth.Secret},
	} {
		if r.ref != nil {
			found = append(found, r)
		}
	}
	return found
}
