package setup

import (
	"fmt"
	"path/filepath"
	"strings"
)

// write writes the configuration that --write names, unless nothing is added.
func (r *imported) write(e Env, f importFlags, file *edited, data []byte) error {
	if f.write == "" || f.dryRun || len(r.add) == 0 {
		return nil
	}
	if err := r.put(e, file, data); err != nil {
		return err
	}
	r.Written = file.name
	return nil
}

// put writes vmcp.env and then the configuration, or nothing if that would have problems.
func (r *imported) put(e Env, file *edited, data []byte) error {
	file.set = r.secrets
	if err := file.check(data); err != nil {
		return err
	}
	env, err := r.writeEnv(filepath.Dir(file.name))
	if err != nil {
		return err
	}
	switch {
	case env == "":
	case len(r.secrets) == 0:
		e.Tell("%s has a line for each variable to be set", env)
	default:
		e.Tell("secrets are in %s", env)
	}
	return file.write(data)
}

func (e Env) reportImport(r *imported, f importFlags, data []byte, asJSON bool) error {
	if asJSON {
		return e.JSON(r)
	}
	for _, b := range r.Backends {
		line := fmt.Sprintf("%s:%d:%d: %s: %s", b.Source.File, b.Source.Line, b.Source.Column, b.Name, b.Action)
		if b.Name == "" {
			line = fmt.Sprintf("%s:%d:%d: %s: %s", b.Source.File, b.Source.Line, b.Source.Column, b.Source.Key, b.Action)
		}
		if b.Reason != "" {
			line += ": " + b.Reason
		}
		e.Tell("%s", line)
	}
	for _, v := range r.Variables {
		if !v.Set {
			e.Tell("set %s, needed by %s", v.Name, strings.Join(v.UsedBy, ", "))
		}
	}
	if f.write != "" && !f.dryRun {
		return nil
	}
	if f.write == "" && len(r.secrets) > 0 {
		e.Tell("the values of %d secrets are not printed; --write writes them to vmcp.env", len(r.secrets))
	}
	_, err := e.Out.Write(data)
	return err
}
