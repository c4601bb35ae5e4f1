package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/clients"

	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// hide moves the values of a backend that are secrets into variables. The notes are about arguments that look like a
// secret and are kept, since nothing says that they are.
func (r *imported) hide(b *config.EditedBackend) (notes []string) {
	if r.inline {
		return nil
	}
	for _, values := range []map[string]string{b.Env, b.Headers} {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			value := r.hideDefaults(b.Name, name, values[name])
			if scheme, _ := schemeOf(value); scheme != "" || secret.Named(name) || secret.Looks(value) {
				values[name] = r.hideValue(b.Name, clients.VariableName(name), value)
			} else {
				values[name] = r.hideInURL(b.Name, value, secret.Looks)
			}
		}
	}
	b.URL = r.hideInURL(b.Name, r.hideDefaults(b.Name, "", b.URL), secret.Looks)
	return r.hideInArgs(b)
}

// hideValue moves a value, except the scheme of a header, into the variable of this name. A value with a variable in it,
// and an empty one, are left as they are.
func (r *imported) hideValue(backend, name, value string) string {
	if value == "" || strings.Contains(value, "${") {
		return value
	}
	scheme, credential := schemeOf(value)
	return scheme + "${" + r.variable(backend, name, credential) + "}"
}

// schemeOf splits the value of a header after its scheme, if it has one.
func schemeOf(value string) (scheme, credential string) {
	if before, after, ok := strings.Cut(value, " "); ok && (strings.EqualFold(before, "Bearer") || strings.EqualFold(before, "Basic")) {
		return before + " ", after
	}
	return "", value
}

// secretsFlag adds the flag --secrets.
func secretsFlag(c *cobra.Command, secrets *string) {
	c.Flags().StringVar(secrets, "secrets", "env", "where secrets are written: env or inline")
	_ = c.RegisterFlagCompletionFunc("secrets", cobra.FixedCompletions([]string{"env", "inline"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

func checkSecrets(secrets string) error {
	if secrets != "env" && secrets != "inline" {
		return cli.Error("--secrets: want env or inline, have " + secrets)
	}
	return nil
}

// readVariables reads the vmcp.env of a folder: the values that variables have already.
func (r *imported) readVariables(folder string) (err error) {
	r.have, err = config.ReadVariables(filepath.Join(folder, config.EnvFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// withDefault matches a variable with its default; one after a further $ is escaped.
var withDefault = regexp.MustCompile(`(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*):-([^}]+)\}`)

// hideDefaults moves the secret defaults of variables out of a field: those of variables that a client asks for as
// passwords, too.
func (r *imported) hideDefaults(backend, field, text string) string {
	return withDefault.ReplaceAllStringFunc(text, func(whole string) string {
		m := withDefault.FindStringSubmatch(whole)
		name, value := m[2], m[3]
		isSecret := r.asked[name].Secret || secret.Looks(value) || secret.Named(name) || secret.Named(field)
		if m[1] != "" || !isSecret {
			return whole
		}
		return "${" + r.variable(backend, name, value) + "}"
	})
}

// camel matches where a word begins inside of a name in camel case.
var camel = regexp.MustCompile(`([a-z])([A-Z])`)

// part is the variable for a secret whose own name is not one of a variable, such as that of a flag: the variable's name begins
// with the backend's.
func (r *imported) part(backend, name, value string) string {
	name = "_" + strings.Trim(clients.VariableName(camel.ReplaceAllString(name, "${1}_${2}")), "_")
	for _, known := range []map[string]string{r.secrets, r.have} {
		for _, variable := range slices.Sorted(maps.Keys(known)) {
			if known[variable] == value && strings.HasSuffix(variable, name) {
				return r.variable(backend, variable, value) // the same secret, imported from another client
			}
		}
	}
	return r.variable(backend, clients.VariableName(backend)+name, value)
}

// variable notes a secret and returns the name of its variable: name, or if that has another value, with the
// backend's name before it and a number after it.
func (r *imported) variable(backend, name, value string) string {
	field := name
	if r.isOther(name, value) {
		name = clients.VariableName(backend + "_" + field)
	}
	for n := 2; r.isOther(name, value); n++ {
		name = fmt.Sprintf("%s_%d", clients.VariableName(backend+"_"+field), n)
	}
	if _, ok := r.secrets[name]; !ok {
		r.Variables = append(r.Variables, importedVariable{Name: name, Secret: true, Set: true})
	}
	r.secrets[name] = value
	i := slices.IndexFunc(r.Variables, func(v importedVariable) bool { return v.Name == name })
	r.Variables[i].UsedBy = append(r.Variables[i].UsedBy, backend)
	return name
}

// isOther reports whether a variable exists with another value.
func (r *imported) isOther(name, value string) bool {
	known, ok := r.secrets[name]
	if !ok {
		known, ok = r.have[name]
	}
	return ok && known != value
}

// envLines are the lines to be added to vmcp.env, whose text and variables are given: the secrets, and the variables that
// the user has to set.
func (r *imported) envLines(text string, have map[string]string) string {
	var b strings.Builder
	for _, v := range r.Variables {
		if _, ok := have[v.Name]; ok {
			continue
		}
		value, ours := r.secrets[v.Name]
		if !ours && (v.Set || slices.Contains(strings.Split(text, "\n"), unset(v.Name))) {
			continue
		}
		if about := r.describe[v.Name]; about != "" {
			fmt.Fprintf(&b, "# %s\n", strings.Join(strings.Fields(about), " "))
		}
		if !ours {
			b.WriteString(unset(v.Name) + "\n")
			continue
		}
		fmt.Fprintf(&b, "%s=\"%s\"\n", v.Name, envEscapes.Replace(value))
	}
	return b.String()
}

// unset is the line for a variable that the user has to set.
func unset(name string) string { return "# " + name + `=""` }

var envEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

// writeEnv adds secrets to the vmcp.env beside a configuration, with lines for the variables that the user has to set. If one
// of them has another value there, it belongs to another server, and nothing is written.
func (r *imported) writeEnv(folder string) (string, error) {
	name := filepath.Join(folder, config.EnvFile)
	have, err := config.ReadVariables(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, variable := range slices.Sorted(maps.Keys(r.secrets)) {
		if value, ok := have[variable]; ok && value != r.secrets[variable] {
			return "", fmt.Errorf("%s has another value of %s: rename it there, or give --secrets inline", name, variable)
		}
	}
	data, err := files.Read(name, config.MaxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	lines := r.envLines(string(data), have)
	if lines == "" {
		return "", nil
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	if err := files.WritePrivate(name, append(data, lines...)); err != nil {
		return "", err
	}
	return name, ignoreSecrets(folder)
}
