package operate

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/cluster"
	"github.com/vmcp-dev/vmcp/script/durable"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// This part of the package has the commands vmcp login and vmcp logout: they get, by OAuth in a browser, and delete the proxy's tokens for a backend.

// LoginEnv is what the commands need of the program that they are part of.
type LoginEnv struct {
	Out         io.Writer
	DefaultFile string
	// Load reads a configuration; Hide hides secrets in all output from then on; Say writes a message for a person.
	Load func(file string) (*config.Config, error)
	Hide func(secrets []string)
	Say  func(format string, args ...any)
}

// LoginCommands returns vmcp login and vmcp logout.
func LoginCommands(e LoginEnv) []*cobra.Command { return []*cobra.Command{e.login(), e.logout()} }

// loginTime bounds how long a login waits for the redirect.
const loginTime = 10 * time.Minute

func (e LoginEnv) login() *cobra.Command {
	var noBrowser bool
	var scopes []string
	var port uint16
	c := &cobra.Command{
		Use:   "login NAME",
		Short: "log in at a backend for this proxy",
		Long: `Login gets the tokens for a backend of type oauth in outgoingAuth. It opens the login page of the
backend's authorization server in a browser, receives the redirect at a port of this machine, and stores
the tokens in tokenStore. A running server uses them within seconds, and refreshes them.

If a call needs more scopes than the login has, its error has the --scope to log in with again;
scopes that were granted before are requested, too.`,
		Example: "  vmcp login linear\n  vmcp login linear --no-browser\n  vmcp login linear --scope \"issues:write\"",
		Args:    cobra.ExactArgs(1),
	}
	file := c.Flags().String("config", e.DefaultFile, "the configuration file")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	c.Flags().BoolVar(&noBrowser, "no-browser", false, "print the URL of the login page instead of opening a browser")
	c.Flags().StringArrayVar(&scopes, "scope", nil, "additional scopes, separated by spaces; repeatable")
	c.Flags().Uint16Var(&port, "port", 0, "receive the redirect at this port of 127.0.0.1, if the authorization server accepts only one (default any free port)")
	c.RunE = func(c *cobra.Command, args []string) error {
		b, store, done, err := e.backend(c.Context(), *file, args[0])
		if err != nil {
			return err
		}
		defer done()
		ctx, cancel := context.WithTimeoutCause(c.Context(), loginTime, fmt.Errorf("the browser did not return within %s", loginTime))
		defer cancel()
		more, err := wantedScopes(c.Context(), store, b.Name, scopes)
		if err != nil {
			return err
		}
		back, err := cli.Listen(port)
		if err != nil {
			return err
		}
		defer back.Close()
		grant, err := credentials.LogIn(ctx, credentials.Consent{Backend: b, Redirect: back.URL, Scopes: more, Ask: func(ctx context.Context, page string) (url.Values, error) {
			fmt.Fprintln(e.Out, page)
			if noBrowser || !cli.Open(page) {
				e.Say("open the page above in a browser on this machine")
			}
			return back.Wait(ctx)
		}})
		if err != nil {
			return err
		}
		if err := store.Put(c.Context(), b.Name, "", grant); err != nil {
			return err
		}
		e.Say("logged in at %s", b.Name)
		return nil
	}
	return c
}

// wantedScopes returns the scopes of the flags and those granted by the last login, or nil without flags.
func wantedScopes(ctx context.Context, store credentials.Keeper, backend string, flags []string) ([]string, error) {
	more := strings.Fields(strings.Join(flags, " "))
	if len(more) == 0 {
		return nil, nil
	}
	before, err := store.Find(ctx, backend, "")
	if err != nil {
		return nil, err
	}
	if before != nil {
		more = append(slices.Clone(before.Scopes), more...)
	}
	return more, nil
}

func (e LoginEnv) logout() *cobra.Command {
	var everybody bool
	c := &cobra.Command{
		Use:     "logout NAME",
		Short:   "delete the tokens of a login at a backend",
		Long:    "Logout deletes the tokens of vmcp login from tokenStore. They are not revoked: the backend accepts them until they expire.",
		Example: "  vmcp logout linear",
		Args:    cobra.ExactArgs(1),
	}
	file := c.Flags().String("config", e.DefaultFile, "the configuration file")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	c.Flags().BoolVar(&everybody, "all", false, "also delete the tokens of all principals")
	c.RunE = func(c *cobra.Command, args []string) error {
		b, store, done, err := e.backend(c.Context(), *file, args[0])
		if err != nil {
			return err
		}
		defer done()
		var n int
		if everybody {
			n, err = store.RemoveAll(c.Context(), b.Name)
		} else {
			n, err = store.Remove(c.Context(), b.Name, "")
		}
		if err == nil && n == 0 {
			err = fmt.Errorf("%s: there is no login", b.Name)
		}
		if err == nil {
			e.Say("logged out of %s", b.Name)
		}
		return err
	}
	return c
}

// backend finds a backend with a login, and the store of its tokens: the database of the replicas, or a file. done closes it.
func (e LoginEnv) backend(ctx context.Context, file, name string) (b config.Backend, store credentials.Keeper, done func(), err error) {
	cfg, err := e.Load(file)
	if err != nil {
		return b, nil, nil, err
	}
	e.Hide(cfg.Secrets())
	i := slices.IndexFunc(cfg.Backends, func(b config.Backend) bool { return b.Name == name })
	switch {
	case i < 0:
		return b, nil, nil, fmt.Errorf("%s: no backend is named %q", file, name)
	case cfg.Backends[i].Outgoing == nil || cfg.Backends[i].Outgoing.Type != config.Login:
		return b, nil, nil, cli.WithHint(fmt.Errorf("backend %s has no login", name), "outgoingAuth.backends."+name+": {type: oauth, oauth: {}} configures one")
	}
	if cfg.Cluster.On() {
		ring, err := durable.NewSeal(sqlstore.Keys(cfg))
		if err != nil {
			return b, nil, nil, err
		}
		tokens, err := cluster.OpenTokens(ctx, cfg, ring)
		if err != nil {
			return b, nil, nil, err
		}
		return cfg.Backends[i], credentials.Share(tokens), tokens.Close, nil
	}
	kept, err := credentials.OpenStore(cfg.TokenStore)
	if err != nil {
		return b, nil, nil, fmt.Errorf("tokenStore.keyEnv: %s: %w", cfg.TokenStore.KeyEnv, err)
	}
	return cfg.Backends[i], kept, func() {}, nil
}
