package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/config"
)

func (a *app) token() *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "make, list and revoke static tokens",
		Long: `Token keeps the file of static tokens that incomingAuth.tokens.file names. The file holds
hashes: a token is printed once, when it is made. A running server follows the file.`,
	}
	file := c.PersistentFlags().String("file", "", "the tokens file (default the one that vmcp.yaml names)")
	_ = c.MarkPersistentFlagFilename("file", "yaml", "yml") // the flag exists
	c.AddCommand(a.tokenNew(file), a.tokenList(file), a.tokenRevoke(file))
	return c
}

func (a *app) tokenNew(file *string) *cobra.Command {
	var groups, scopes []string
	var expires string
	c := &cobra.Command{
		Use:     "new NAME",
		Short:   "make a token and print it, this once",
		Example: "  vmcp token new alice --group ops --expires 90d\n  vmcp token new ci --scope mcp:tools --file tokens.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := a.tokensFile(*file)
			if err != nil {
				return err
			}
			t := auth.Token{Name: args[0], Groups: groups, Scopes: scopes}
			if expires != "" {
				if t.Expires, err = expiry(expires); err != nil {
					return err
				}
			}
			token, err := auth.NewToken(path, t)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.out, token)
			a.say("%s: added %s; the token is not kept anywhere else", path, t.Name)
			return nil
		},
	}
	c.Flags().StringArrayVar(&groups, "group", nil, "a group that its bearer is in; may be given again")
	c.Flags().StringArrayVar(&scopes, "scope", nil, "a scope that it has; may be given again")
	c.Flags().StringVar(&expires, "expires", "", "when it ends, from now: 90d, 12h")
	return c
}

// expiry reads how long a token is good for, from now.
func expiry(text string) (time.Time, error) {
	d, err := config.ParseDuration(text)
	if err != nil || d <= 0 {
		return time.Time{}, usageError(fmt.Sprintf("--expires: want a time such as 90d or 12h, have %q", text))
	}
	return time.Now().Add(d).UTC().Truncate(time.Second), nil
}

func (a *app) tokenList(file *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "list the tokens by name",
		Args:  cobra.NoArgs,
	}
	output := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		path, err := a.tokensFile(*file)
		if err != nil {
			return err
		}
		tokens, err := auth.ReadTokens(path)
		if err != nil {
			return err
		}
		if *output == "json" {
			return a.printJSON(listedTokens(tokens))
		}
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		for _, t := range tokens {
			ends := "never ends"
			if !t.Expires.IsZero() {
				ends = "ends " + t.Expires.Format(time.DateOnly)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.Name, ends, strings.Join(t.Groups, ","), strings.Join(t.Scopes, " "))
		}
		return w.Flush()
	}
	return c
}

// listedToken is a token as it is listed: without its hash.
type listedToken struct {
	Name    string    `json:"name"`
	Groups  []string  `json:"groups"`
	Scopes  []string  `json:"scopes"`
	Expires time.Time `json:"expires,omitzero"`
}

func listedTokens(tokens []auth.Token) []listedToken {
	list := make([]listedToken, len(tokens))
	for i, t := range tokens {
		list[i] = listedToken{t.Name, append([]string{}, t.Groups...), append([]string{}, t.Scopes...), t.Expires}
	}
	return list
}

func (a *app) tokenRevoke(file *string) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "take a token out of the file: its bearer is out within seconds",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := a.tokensFile(*file)
			if err != nil {
				return err
			}
			if err := auth.RevokeToken(path, args[0]); err != nil {
				return err
			}
			a.say("%s: %s is revoked", path, args[0])
			return nil
		},
	}
}

// tokensFile is the file that --file names, or the configuration in this folder.
func (a *app) tokensFile(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	path, err := config.TokensFile(defaultFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", usageError("want --file: there is no " + defaultFile + " here")
	case err != nil:
		return "", err
	case path == "":
		return "", usageError("want --file: " + defaultFile + " has no incomingAuth.tokens.file")
	}
	return path, nil
}

// environmentToken is the token of a client that starts this program for itself.
func environmentToken() string { return strings.TrimSpace(os.Getenv("VMCP_TOKEN")) }
