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

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/usage"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/config/edit"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// hide moves the values of a backend that are secrets into variables. The notes are about what looks like a secret
// and stays, since nothing says what it is: in the URL and in arguments.
func (r *imported) hide(b *edit.Backend) (notes []string) {
	if r.inline {
		return nil
	}
	for _, values := range []map[string]string{b.Env, b.Headers} {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			values[name] = r.hideDefaults(b.Name, name, values[name])
			value := values[name]
			if value == "" || strings.Contains(value, "${") || !secret.Named(name) && !secret.Looks(value) {
				continue
			}
			scheme, credential := "", value
			if before, after, ok := strings.Cut(value, " "); ok && (strings.EqualFold(before, "Bearer") || strings.EqualFold(before, "Basic")) {
				scheme, credential = before+" ", after
			}
			values[name] = scheme + "${" + r.variable(b.Name, clients.VariableName(name), credential) + "}"
		}
	}
	const stays = "looks like a secret and is written as it is: put it into " + config.EnvFile + " and write ${NAME} in its place"
	if b.URL = r.hideDefaults(b.Name, "", b.URL); len(secret.InURL(b.URL)) > 0 {
		notes = append(notes, b.Name+": a part of the URL "+stays)
	}
	b.Args = slices.Clone(b.Args)
	for i, arg := range b.Args {
		b.Args[i] = r.hideDefaults(b.Name, "", arg)
		if secret.Looks(arg[strings.IndexByte(arg, '=')+1:]) {
			notes = append(notes, fmt.Sprintf("%s: argument %d %s", b.Name, i+1, stays))
		}
	}
	return notes
}

// secretsFlag is the flag of commands that may find secrets.
func secretsFlag(c *cobra.Command, secrets *string) {
	c.Flags().StringVar(secrets, "secrets", "env", "where values go that are secrets: env or inline")
	_ = c.RegisterFlagCompletionFunc("secrets", cobra.FixedCompletions([]string{"env", "inline"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

func checkSecrets(secrets string) error {
	if secrets != "env" && secrets != "inline" {
		return usage.Error("--secrets: want env or inline, have " + secrets)
	}
	return nil
}

// readVariables reads the vmcp.env of a folder, whose names have their values already.
func (r *imported) readVariables(folder string) (err error) {
	r.have, err = config.ReadVariables(filepath.Join(folder, config.EnvFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// withDefault is a variable with its default; one that a $ stands before is none.
var withDefault = regexp.MustCompile(`(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*):-([^}]+)\}`)

// hideDefaults moves the defaults of variables that are secrets out of the text of a field: what a client hides
// while it is typed in, too.
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

// variable is the name under which a secret is kept: this one, with the backend's before it when another value has
// that.
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

// isOther reports whether a variable has another value.
func (r *imported) isOther(name, value string) bool {
	known, ok := r.secrets[name]
	if !ok {
		known, ok = r.have[name]
	}
	return ok && known != value
}

// envLines are the lines that vmcp.env lacks: secrets, and the variables that somebody has to fill in.
func (r *imported) envLines(have map[string]string) string {
	var b strings.Builder
	for _, v := range r.Variables {
		if _, ok := have[v.Name]; ok {
			continue
		}
		value, ours := r.secrets[v.Name]
		if !ours && v.Set {
			continue
		}
		if text := r.describe[v.Name]; text != "" {
			fmt.Fprintf(&b, "# %s\n", strings.Join(strings.Fields(text), " "))
		}
		if !ours {
			fmt.Fprintf(&b, "# %s=\"\"\n", v.Name)
			continue
		}
		fmt.Fprintf(&b, "%s=\"%s\"\n", v.Name, envEscapes.Replace(value))
	}
	return b.String()
}

var envEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

// writeEnv puts secrets into the vmcp.env beside a configuration. A value that it has under one of the
// names is another server's, and then nothing is written.
func (r *imported) writeEnv(folder string) (string, error) {
	if len(r.secrets) == 0 {
		return "", nil
	}
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
	lines := r.envLines(have)
	if lines == "" {
		return "", nil
	}
	data, err := files.Read(name, config.MaxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	if err := files.WritePrivate(name, append(data, lines...)); err != nil {
		return "", err
	}
	return name, ignoreSecrets(folder)
}
