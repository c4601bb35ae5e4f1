package operate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/proxy/auth"

	"github.com/vmcp-dev/vmcp/config"
)

// This part of the package is the command vmcp token: it makes, lists and revokes static tokens.

// TokensEnv is what the commands need of the program that they are part of.
type TokensEnv struct {
	Out         io.Writer
	DefaultFile string
	// Say writes a message for a person; JSON a result; Output adds --output to a command.
	Say    func(format string, args ...any)
	JSON   func(v any) error
	Output func(*cobra.Command) *string
}

// TokensCommand returns the command.
func TokensCommand(e TokensEnv) *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "create, list and revoke static tokens",
		Long: `Token edits the file of static tokens, incomingAuth.tokens.file. The file has only
hashes: a token is printed once, when it is created. A running server reloads the file.`,
	}
	file := c.PersistentFlags().String("file", "", "the tokens file (default the one that vmcp.yaml names)")
	_ = c.MarkPersistentFlagFilename("file", "yaml", "yml") // the flag exists
	c.AddCommand(e.make(file), e.list(file), e.revoke(file))
	return c
}

func (e TokensEnv) make(file *string) *cobra.Command {
	var groups, scopes []string
	var expires string
	c := &cobra.Command{
		Use:     "new NAME",
		Short:   "create a token and print it",
		Example: "  vmcp token new alice --group ops --expires 90d\n  vmcp token new ci --scope mcp:tools --file tokens.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := e.tokensFile(*file)
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
			fmt.Fprintln(e.Out, token)
			e.Say("%s: added %s; the token is not stored and cannot be printed again", path, t.Name)
			return nil
		},
	}
	c.Flags().StringArrayVar(&groups, "group", nil, "a group of the principal; repeatable")
	c.Flags().StringArrayVar(&scopes, "scope", nil, "a scope of the token; repeatable")
	c.Flags().StringVar(&expires, "expires", "", "when the token expires, from now: 90d, 12h")
	return c
}

// expiry parses --expires: a duration from now.
func expiry(text string) (time.Time, error) {
	d, err := config.ParseDuration(text)
	if err != nil || d <= 0 {
		return time.Time{}, cli.Error(fmt.Sprintf("--expires: want a time such as 90d or 12h, have %q", text))
	}
	return time.Now().Add(d).UTC().Truncate(time.Second), nil
}

func (e TokensEnv) list(file *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "list the tokens by name",
		Long: `List prints the names of the tokens, their expiry, groups and scopes. It prints neither tokens nor
hashes.` + cli.Of([]listedToken{}),
		Args: cobra.NoArgs,
	}
	output := e.Output(c)
	c.RunE = func(*cobra.Command, []string) error {
		path, err := e.tokensFile(*file)
		if err != nil {
			return err
		}
		tokens, err := auth.ReadTokens(path)
		if err != nil {
			return err
		}
		if *output == "json" {
			return e.JSON(listedTokens(tokens))
		}
		w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
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

// listedToken is the JSON of a token: without its hash.
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

func (e TokensEnv) revoke(file *string) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "revoke a token: requests with it are refused within seconds",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := e.tokensFile(*file)
			if err != nil {
				return err
			}
			if err := auth.RevokeToken(path, args[0]); err != nil {
				return err
			}
			e.Say("%s: %s is revoked", path, args[0])
			return nil
		},
	}
}

// tokensFile is the file of --file, or else of the configuration in this folder.
func (e TokensEnv) tokensFile(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	path, err := config.TokensFile(e.DefaultFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", cli.Error("want --file: there is no " + e.DefaultFile + " here")
	case err != nil:
		return "", err
	case path == "":
		return "", cli.Error("want --file: " + e.DefaultFile + " has no incomingAuth.tokens.file")
	}
	return path, nil
}
