package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/cluster"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/browser"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/usage"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/runs/seal"
	"github.com/vmcp-dev/vmcp/runs/settings"
)

// loginTime is how long a login waits for the person who logs in.
const loginTime = 10 * time.Minute

func (a *app) login() *cobra.Command {
	var noBrowser bool
	var scopes []string
	var port uint16
	c := &cobra.Command{
		Use:   "login NAME",
		Short: "log in at a backend for this proxy",
		Long: `Login gets the tokens for a backend of type oauth in outgoingAuth. It opens the page of the
backend's authorization server in a browser, takes the answer at a port of this machine, and keeps
the tokens in tokenStore. A running server uses them within seconds, and renews them.

Where a call needs more scopes than the login has, its error says with which --scope to log in
again; what was granted before is asked for, too.`,
		Example: "  vmcp login linear\n  vmcp login linear --no-browser\n  vmcp login linear --scope \"issues:write\"",
		Args:    cobra.ExactArgs(1),
	}
	file := c.Flags().String("config", defaultFile, "the configuration file")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	c.Flags().BoolVar(&noBrowser, "no-browser", false, "print the URL of the page, and open nothing")
	c.Flags().StringArrayVar(&scopes, "scope", nil, "ask for these scopes, too; several with spaces between them, or the flag again")
	c.Flags().Uint16Var(&port, "port", 0, "take the answer at this port of 127.0.0.1, where the authorization server knows only one; any free one by default")
	c.RunE = func(c *cobra.Command, args []string) error {
		b, store, done, err := a.loginAt(c.Context(), *file, args[0])
		if err != nil {
			return err
		}
		defer done()
		ctx, cancel := context.WithTimeoutCause(c.Context(), loginTime, fmt.Errorf("nobody came back within %s", loginTime))
		defer cancel()
		more, err := wantedScopes(c.Context(), store, b.Name, scopes)
		if err != nil {
			return err
		}
		back, err := browser.Listen(port)
		if err != nil {
			return err
		}
		defer back.Close()
		grant, err := credentials.LogIn(ctx, credentials.Consent{Backend: b, Redirect: back.URL, Scopes: more, Ask: func(ctx context.Context, page string) (url.Values, error) {
			fmt.Fprintln(a.out, page)
			if noBrowser || !browser.Open(page) {
				a.say("open the page above in a browser on this machine")
			}
			return back.Wait(ctx)
		}})
		if err != nil {
			return err
		}
		if err := store.Put(c.Context(), b.Name, "", grant); err != nil {
			return err
		}
		a.say("logged in at %s", b.Name)
		return nil
	}
	return c
}

// wantedScopes are the scopes of flags, and with them those that the login before was given.
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

func (a *app) logout() *cobra.Command {
	var everybody bool
	c := &cobra.Command{
		Use:     "logout NAME",
		Short:   "forget the tokens of a login at a backend",
		Long:    "Logout takes the tokens of vmcp login out of tokenStore. They stay good with the backend until they end.",
		Example: "  vmcp logout linear",
		Args:    cobra.ExactArgs(1),
	}
	file := c.Flags().String("config", defaultFile, "the configuration file")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	c.Flags().BoolVar(&everybody, "all", false, "those of all principals, too")
	c.RunE = func(c *cobra.Command, args []string) error {
		b, store, done, err := a.loginAt(c.Context(), *file, args[0])
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
			err = fmt.Errorf("%s: nobody is logged in", b.Name)
		}
		if err == nil {
			a.say("logged out of %s", b.Name)
		}
		return err
	}
	return c
}

// loginAt finds a backend with a login, and what keeps it: the database of replicas, or a file. done closes it.
func (a *app) loginAt(ctx context.Context, file, name string) (b config.Backend, store credentials.Keeper, done func(), err error) {
	cfg, err := a.load(file)
	if err != nil {
		return b, nil, nil, err
	}
	a.secrets.Use(cfg.Secrets())
	i := slices.IndexFunc(cfg.Backends, func(b config.Backend) bool { return b.Name == name })
	switch {
	case i < 0:
		return b, nil, nil, fmt.Errorf("%s: no backend is named %q", file, name)
	case cfg.Backends[i].Outgoing == nil || cfg.Backends[i].Outgoing.Type != config.Login:
		return b, nil, nil, usage.WithHint(fmt.Errorf("backend %s has no login", name), "outgoingAuth.backends."+name+": {type: oauth, oauth: {}} gives it one")
	}
	if cfg.Cluster.On() {
		ring, err := seal.New(settings.Keys(cfg))
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
