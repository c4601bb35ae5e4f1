package setup

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"

	"github.com/vmcp-dev/vmcp/internal/secret"
)

// Secrets inside of arguments and URLs.

// hideInURL moves the parts of a URL that are secrets into variables: the password, segments of the path for which
// inPath is true, and parameters whose name or value looks like a secret. Text that is no URL is left as it is.
func (r *imported) hideInURL(backend, text string, inPath func(string) bool) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme == "" || strings.ContainsAny(text, " \t\n") {
		return text
	}
	rest, fragment, hasFragment := strings.Cut(rest, "#")
	rest, query, hasQuery := strings.Cut(rest, "?")
	parts := strings.Split(rest, "/")
	parts[0] = r.hidePassword(backend, parts[0])
	for i, part := range parts[1:] {
		if isLiteral(part, url.PathUnescape, inPath) {
			parts[1+i] = "${" + r.part(backend, "TOKEN", part) + "}"
		}
	}
	out := scheme + "://" + strings.Join(parts, "/")
	if hasQuery {
		out += "?" + r.hideInQuery(backend, query)
	}
	if hasFragment {
		out += "#" + fragment
	}
	return out
}

// hidePassword moves the password in an authority into a variable, or a user name that looks like a token.
func (r *imported) hidePassword(backend, authority string) string {
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return authority
	}
	user, password, ok := strings.Cut(authority[:at], ":")
	switch {
	case ok && isLiteral(password, url.PathUnescape, func(string) bool { return true }):
		return user + ":${" + r.part(backend, "PASSWORD", password) + "}" + authority[at:]
	case !ok && isLiteral(user, url.PathUnescape, secret.Looks):
		return "${" + r.part(backend, "TOKEN", user) + "}" + authority[at:]
	}
	return authority
}

func (r *imported) hideInQuery(backend, query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if isLiteral(value, url.QueryUnescape, func(v string) bool { return secret.Named(name) || secret.Looks(v) }) {
			pairs[i] = name + "=${" + r.part(backend, name, value) + "}"
		}
	}
	return strings.Join(pairs, "&")
}

// isLiteral reports whether a part of a URL contains no variable, and its unescaped value satisfies is.
func isLiteral(part string, unescape func(string) (string, error), is func(string) bool) bool {
	if part == "" || strings.Contains(part, "${") {
		return false
	}
	value, err := unescape(part)
	return err == nil && is(value)
}

var (
	// secretFlag matches a flag whose value is certainly a secret, such as --api-key and --accessToken.
	secretFlag = regexp.MustCompile(`(?i)^-.*(token|secret|passw(or)?d|passphrase|credentials?|(api|access|secret|private|auth|license|subscription|account|service|admin|signing|encryption)[-_]?key|[-_]pat)$`)
	flagName   = regexp.MustCompile(`^--?[A-Za-z][A-Za-z0-9_.-]*$`)
	headerFlag = regexp.MustCompile(`^(-H|--?headers?)$`)
	nameValue  = regexp.MustCompile(`(?s)^([A-Za-z_][A-Za-z0-9_]*)=(.+)$`)
	fieldValue = regexp.MustCompile(`(?s)^([A-Za-z][A-Za-z0-9-]*)(: ?|=)(.+)$`)
	noSecret   = regexp.MustCompile(`^([0-9]{1,6}|(?i:true|false|yes|no|none|null)|[.~/\\@-].*)$`) // numbers, words, files, flags
)

// hideInArgs moves the secrets in a command's arguments into variables where they are recognized: by the
// name of a flag, variable or header, by their position in a URL, or by the prefix of a well-known service.
func (r *imported) hideInArgs(b *config.EditedBackend) (notes []string) {
	b.Args = slices.Clone(b.Args)
	before := ""
	for i, arg := range b.Args {
		b.Args[i] = r.hideInArg(b.Name, before, r.hideDefaults(b.Name, "", arg))
		if left := b.Args[i]; secret.Looks(left[strings.IndexByte(left, '=')+1:]) || strings.Contains(left, "://") && len(secret.InURL(left)) > 0 {
			notes = append(notes, fmt.Sprintf("%s: argument %d looks like a secret and is written as it is: if it is one, put it into %s and write ${NAME} in its place",
				b.Name, i+1, config.EnvFile))
		}
		before = arg
	}
	return notes
}

// hideInArg returns an argument without its secrets; before is the argument before it.
func (r *imported) hideInArg(backend, before, arg string) string {
	if strings.Contains(arg, "${") {
		return arg
	}
	if flag, value, ok := strings.Cut(arg, "="); ok && flagName.MatchString(flag) {
		return flag + "=" + r.hideFlag(backend, flag, value)
	}
	if headerFlag.MatchString(before) {
		if m := fieldValue.FindStringSubmatch(arg); m != nil && (secret.Named(m[1]) || secret.Looks(m[3])) {
			return m[1] + m[2] + r.hideCredential(backend, m[1], m[3])
		}
	}
	if m := nameValue.FindStringSubmatch(arg); m != nil && !strings.Contains(m[2], "://") {
		if isVariable := before == "-e" || before == "--env"; isVariable && secret.Named(m[1]) || secret.Looks(m[2]) {
			return m[1] + "=" + r.hideValue(backend, m[1], m[2])
		}
		return arg
	}
	if scheme, credential := schemeOf(arg); scheme != "" && secret.Looks(credential) {
		return r.hideCredential(backend, "AUTHORIZATION", arg)
	}
	if flagName.MatchString(before) && !strings.HasPrefix(arg, "-") {
		return r.hideFlag(backend, before, arg)
	}
	if secret.Issued(arg) {
		return r.hideCredential(backend, "TOKEN", arg)
	}
	return r.hideInURL(backend, arg, secret.Issued)
}

// hideFlag returns the value of a flag without its secrets.
func (r *imported) hideFlag(backend, flag, value string) string {
	if secretFlag.MatchString(flag) && !noSecret.MatchString(value) && !strings.Contains(value, "://") || secret.Issued(value) || secret.Named(flag) && secret.Looks(value) {
		return r.hideCredential(backend, flag, value)
	}
	if m := nameValue.FindStringSubmatch(value); m != nil && (flag == "-e" || flag == "--env") && (secret.Named(m[1]) || secret.Looks(m[2])) {
		return m[1] + "=" + r.hideValue(backend, m[1], m[2])
	}
	return r.hideInURL(backend, value, secret.Issued)
}

// hideCredential moves a value, except the scheme of a header, into a variable that begins with the backend's name.
func (r *imported) hideCredential(backend, name, value string) string {
	scheme, credential := schemeOf(value)
	if credential == "" {
		return value
	}
	return scheme + "${" + r.part(backend, name, credential) + "}"
}
