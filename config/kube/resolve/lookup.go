package resolve

import (
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// The default keys of references.
const (
	defaultCAKey    = "ca.crt"
	defaultAuthzKey = "authz.json"
)

// A finding is why an object, or a part of it, cannot be used: problems with one reason of a condition. The zero finding: it can.
type finding struct {
	reason   string
	problems diag.Problems
}

func (f finding) found() bool { return len(f.problems) > 0 }

// add adds a problem.
func (f *finding) add(reason, path, format string, args ...any) {
	f.join(finding{reason, diag.Problems{{Path: path, Code: "config", Message: fmt.Sprintf(format, args...)}}})
}

// join adds the problems of another finding. The first reason is kept, but AuthNotCarried replaces it.
func (f *finding) join(other finding) {
	if other.found() && (!f.found() || other.reason == object.ReasonAuthNotCarried) {
		f.reason = other.reason
	}
	f.problems = append(f.problems, other.problems...)
}

// lookup reads the references of objects.
type lookup struct {
	state *State
	// offline assumes that missing ConfigMaps, Secrets and objects of ToolHive are in the cluster.
	offline bool
}

// text reads a key of a ConfigMap. unknown reports that the ConfigMap is missing and assumed to be in the cluster.
func (l lookup) text(ref config.KeyRef, path string, f *finding) (text string, of *object.ConfigMap, unknown bool) {
	of = l.state.ConfigMaps[ref.Name]
	if of == nil {
		if !l.offline {
			f.add(object.ReasonRefNotFound, path, "there is no ConfigMap %s", ref.Name)
		}
		return "", nil, l.offline
	}
	text, ok := of.Data[ref.Key]
	if !ok {
		f.add(object.ReasonRefNotFound, path, "ConfigMap %s has no key %s", ref.Name, ref.Key)
	}
	return text, of, false
}

// secret reads a value of a Secret and removes one line break at its end. Control characters are refused: a header cannot
// hold them.
func (l lookup) secret(ref config.KeyRef, path string, f *finding) string {
	of := l.state.Secrets[ref.Name]
	if of == nil {
		if !l.offline {
			f.add(object.ReasonRefNotFound, path, "there is no Secret %s", ref.Name)
		}
		return ""
	}
	value, ok := of.Data[ref.Key]
	if !ok {
		f.add(object.ReasonRefNotFound, path, "Secret %s has no key %s", ref.Name, ref.Key)
		return ""
	}
	text := value.Reveal()
	if cut, ok := strings.CutSuffix(text, "\n"); ok {
		text = strings.TrimSuffix(cut, "\r")
	}
	switch {
	case text == "":
		f.add(object.ReasonInvalidSecret, path, "key %s of Secret %s is empty", ref.Key, ref.Name)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		f.add(object.ReasonInvalidSecret, path, "key %s of Secret %s holds a control character", ref.Key, ref.Name)
		return ""
	}
	return text
}

// caBundle reads certificates in PEM from a ConfigMap.
func (l lookup) caBundle(key *object.CABundleKey, path string, f *finding) string {
	if key == nil {
		return ""
	}
	ref := config.KeyRef{Name: key.Name, Key: key.Key}
	if ref.Key == "" {
		ref.Key = defaultCAKey
	}
	text, of, _ := l.text(ref, path, f)
	if of != nil && text != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(text)) {
		f.add(object.ReasonInvalid, path, "key %s of ConfigMap %s holds no certificate in PEM", ref.Key, ref.Name)
	}
	return text
}
