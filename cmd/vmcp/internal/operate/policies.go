package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	jsonyaml "sigs.k8s.io/yaml"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/proxy/auth"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

// This part of the package is the command vmcp policy: it prints the policies of a configuration, explains
// decisions, and compares them with a table of expectations.

// PolicyEnv is what the command needs of the program that it is part of.
type PolicyEnv struct {
	Out         io.Writer
	DefaultFile string
	// Load reads a configuration; JSON writes a result, Problems writes problems as text;
	// Output adds --output to a command; Say writes a message for a person.
	Load     func(file string) (*config.Config, error)
	JSON     func(v any) error
	Problems func(diag.Problems) error
	Output   func(*cobra.Command) *string
	Say      func(format string, args ...any)
	// Reported is returned when a problem has been reported already: exit code 1.
	Reported error
	// Offered starts a proxy for a configuration and returns its status once its backends have answered.
	Offered func(context.Context, *config.Config) (proxy.Status, error)
}

// PolicyCommand returns the command.
func PolicyCommand(a PolicyEnv) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "show, explain and test what principals may do",
		Long: `Policy works with incomingAuth.authz of a configuration file: it prints the policies in
force, explains decisions, and tests the policies with a table of expectations. It needs no
running server. Backends are not started, unless a policy depends on annotations of tools.`,
	}
	file := c.PersistentFlags().String("config", a.DefaultFile, "the configuration file")
	_ = c.MarkPersistentFlagFilename("config", "yaml", "yml") // the flag exists
	c.AddCommand(a.print(file), a.explain(file), a.test(file))
	return c
}

// policies compiles the policies of a configuration file.
func (a PolicyEnv) policies(file string) (*config.Config, *policy.Set, error) {
	cfg, err := a.Load(file)
	if err != nil {
		return nil, nil, err
	}
	set, problems := policy.Compile(cfg)
	errs, _ := problems.Split()
	switch {
	case len(errs) > 0:
		return nil, nil, errs
	case set == nil:
		return nil, nil, cli.WithHint(fmt.Errorf("%s: there are no policies: every authenticated client may do everything", file),
			"write policies, policyFiles or allow below incomingAuth.authz")
	}
	return cfg, set, nil
}

func (a PolicyEnv) print(file *string) *cobra.Command {
	return &cobra.Command{
		Use:     "print",
		Short:   "print the policies in force in Cedar's language, rules in the short form included",
		Example: "  vmcp policy print --config vmcp.yaml > policies.cedar",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, set, err := a.policies(*file)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(a.Out, set.Print()); err != nil {
				return fmt.Errorf("write results: %w", err)
			}
			return nil
		},
	}
}

// explained is the JSON of explain.
type explained struct {
	Decision  string   `json:"decision"`
	Policies  []string `json:"policies"`
	Scopes    []string `json:"scopes,omitempty"`
	Visible   bool     `json:"visible"`
	Depends   bool     `json:"dependsOnArguments,omitempty"`
	Principal string   `json:"principal"`
	Profile   string   `json:"profile,omitempty"`
	Action    string   `json:"action"`
	Origin    string   `json:"origin"`
}

func (a PolicyEnv) explain(file *string) *cobra.Command {
	var who policy.Identity
	var claims []string
	var arguments string
	c := &cobra.Command{
		Use:   "explain tool|prompt|resource ORIGIN",
		Short: "explain whether a principal may use something, and which policies decide it",
		Long: `Explain prints allow, deny or step-up, and below it the names of the policies that decide. The object
is named by its origin: the backend's name, a dot, and its name at the backend;
scripts.NAME for a scripted tool. Without --arguments the question is whether it may be used with any arguments.
--profile is the profile of the request, which policies read as context.profile; that a profile does not
include an entry is not considered.
The exit code is 0 for allow, 1 for deny and step-up.` + cli.Of(explained{}),
		Example: "  vmcp policy explain --subject bob --group dev tool files.read\n  vmcp policy explain --subject bob tool files.write --arguments '{\"path\": \"/etc/passwd\"}'\n  vmcp policy explain --subject bob --profile office tool files.read",
		Args:    cobra.ExactArgs(2),
	}
	output := a.Output(c)
	identityFlags(c, &who)
	c.Flags().StringArrayVar(&claims, "claim", nil, "a claim of the token, NAME=VALUE, where VALUE is JSON or a string; repeatable")
	c.Flags().StringVar(&arguments, "arguments", "", "the arguments of the call, a JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		kind, ok := policy.KindOf(args[0])
		if !ok {
			return cli.Error(fmt.Sprintf("want tool, prompt or resource, have %q", args[0]))
		}
		cfg, set, err := a.policies(*file)
		if err != nil {
			return unusable(err)
		}
		of, err := policy.Named(cfg, kind, args[1])
		if err != nil {
			return cli.Error(err.Error())
		}
		if who.Claims, err = parseClaims(claims); err != nil {
			return err
		}
		if err := hasProfile(cfg, who.Profile); err != nil {
			return cli.Error("--profile: " + err.Error())
		}
		q := policy.Question{Who: completed(who, cfg), Of: of}
		if arguments != "" {
			if q.Arguments, err = object(arguments); err != nil {
				return err
			}
		}
		d, err := a.answer(c.Context(), cfg, set, q)
		if err != nil {
			return unusable(err)
		}
		return a.showDecision(d, explained{
			Decision: decisionWord(d), Policies: append([]string{}, d.Policies...), Scopes: d.Scopes, Visible: d.Outcome != policy.Invisible, Depends: d.Open,
			Principal: q.Who.Subject, Profile: q.Who.Profile, Action: kind.Action(), Origin: args[1],
		}, *output == "json")
	}
	return c
}

// identityFlags adds the flags that describe the principal and the profile.
func identityFlags(c *cobra.Command, who *policy.Identity) {
	f := c.Flags()
	f.StringVar(&who.Subject, "subject", "", "the subject of the principal (default anonymous)")
	f.StringVar(&who.Issuer, "issuer", "", "the issuer of the principal (default: as for incomingAuth.type)")
	f.StringArrayVar(&who.Groups, "group", nil, "a group or role of the subject; repeatable")
	f.StringArrayVar(&who.Scopes, "scope", nil, "a scope of the token; repeatable")
	f.StringVar(&who.Client, "client", "", "the OAuth client that the token was issued to")
	f.StringVar(&who.Profile, "profile", "", "the profile that is used (default none)")
}

// unusable is an error that prevents a decision: exit 2, since 1 means deny.
func unusable(err error) error { return cli.Error(err.Error()) }

func object(text string) (json.RawMessage, error) {
	var o map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &o); err != nil || o == nil {
		return nil, cli.Error("--arguments: want a JSON object such as {\"path\": \"/tmp\"}")
	}
	return json.RawMessage(text), nil
}

func parseClaims(list []string) (map[string]any, error) {
	claims := map[string]any{}
	for _, text := range list {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, cli.Error(fmt.Sprintf("--claim: want NAME=VALUE, have %q", text))
		}
		var v any
		if json.Unmarshal([]byte(value), &v) != nil {
			v = value
		}
		claims[name] = v
	}
	return claims, nil
}

// completed is an identity with its defaults: the anonymous subject, or the configuration's issuer.
func completed(who policy.Identity, cfg *config.Config) policy.Identity {
	if who.Subject == "" {
		who.Subject = proxy.Anonymous
	} else if who.Issuer == "" {
		switch cfg.IncomingAuth.Type {
		case "oidc":
			who.Issuer = cfg.IncomingAuth.OIDC.Issuer
		case "tokens":
			who.Issuer = auth.IssuerTokens
		case "mtls":
			who.Issuer = auth.IssuerMTLS
		case "local":
			who.Issuer = auth.IssuerLocal
		}
	}
	return who
}

// hasProfile returns an error if there is no such profile; "" is no profile, and is always allowed.
func hasProfile(cfg *config.Config, name string) error {
	names := make([]string, len(cfg.Profiles))
	for i, p := range cfg.Profiles {
		names[i] = p.Name
	}
	switch {
	case name == "" || slices.Contains(names, name):
		return nil
	case len(names) == 0:
		return fmt.Errorf("the configuration has no profiles, and so no %q", name)
	}
	return fmt.Errorf("there is no profile %q%s", name, cmp.Or(display.Hint(name, names), "; there are "+strings.Join(names, ", ")))
}

// decisionWord is the word that explain prints: invisible is deny.
func decisionWord(d policy.Decision) string {
	if d.Outcome == policy.Invisible {
		return policy.Deny.String()
	}
	return d.Outcome.String()
}

func (a PolicyEnv) showDecision(d policy.Decision, e explained, asJSON bool) error {
	if asJSON {
		if err := a.JSON(e); err != nil {
			return err
		}
	} else {
		lines := append([]string{e.Decision}, e.Policies...)
		if len(e.Scopes) > 0 {
			lines = append(lines, "needs the scopes "+strings.Join(e.Scopes, " "))
		}
		if _, err := fmt.Fprintln(a.Out, strings.Join(lines, "\n")); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
		switch {
		case d.Open:
			a.Say("it depends on the arguments: give them with --arguments")
		case d.Outcome == policy.Invisible && len(d.Policies) == 0:
			a.Say("no policy permits it, whatever the arguments are")
		case d.Outcome == policy.Invisible:
			a.Say("it is forbidden, whatever the arguments are")
		case d.Reason != "":
			a.Say("%s", d.Reason)
		}
	}
	if d.Outcome != policy.Allow {
		return a.Reported
	}
	return nil
}

// answer decides a question. If a policy reads annotations of the tool, its backend is asked for them.
func (a PolicyEnv) answer(ctx context.Context, cfg *config.Config, set *policy.Set, q policy.Question) (policy.Decision, error) {
	if set.Depends(q) {
		hints, err := a.hints(ctx, cfg, q.Of)
		if err != nil {
			return policy.Decision{}, err
		}
		q.Of.Hints = hints
	}
	return set.Answer(q), nil
}

// hints connects to the backend of a tool, or compiles the script, and reads the tool's annotations.
func (a PolicyEnv) hints(ctx context.Context, cfg *config.Config, of policy.Of) (policy.Hints, error) {
	part := *cfg
	part.IncomingAuth, part.Audit = config.IncomingAuth{}, config.Audit{}
	if of.Backend != config.ScriptsOrigin {
		part.Backends = nil
		for _, b := range cfg.Backends {
			if b.Name == of.Backend {
				part.Backends = append(part.Backends, b)
			}
		}
		part.ScriptedTools, part.Scripts, part.CompositeTools = nil, nil, nil
	}
	status, err := a.Offered(ctx, &part)
	if err != nil {
		return policy.Hints{}, err
	}
	for _, t := range status.Tools {
		if t.Backend == of.Backend && t.Original == of.Original || t.Backend == "" && of.Backend == config.ScriptsOrigin && t.Name == of.Name {
			var def struct {
				Annotations json.RawMessage `json:"annotations"`
			}
			_ = json.Unmarshal(t.Definition, &def) // the proxy has parsed it before
			return policy.HintsOf(def.Annotations), nil
		}
	}
	return policy.Hints{}, fmt.Errorf("a policy depends on annotations of %s.%s, and no such tool is offered", of.Backend, of.Original)
}

// expectation is an entry in the table of policy test.
type expectation struct {
	Name      string `json:"name"`
	Principal struct {
		Subject string         `json:"subject"`
		Issuer  string         `json:"issuer"`
		Client  string         `json:"client"`
		Groups  []string       `json:"groups"`
		Scopes  []string       `json:"scopes"`
		Claims  map[string]any `json:"claims"`
	} `json:"principal"`
	Profile   string          `json:"profile"`
	Action    string          `json:"action"`
	Origin    string          `json:"origin"`
	Arguments json.RawMessage `json:"arguments"`
	Want      string          `json:"want"`
	pos       diag.Pos
}

// tested is the JSON of policy test.
type tested struct {
	Expectations int           `json:"expectations"`
	Problems     diag.Problems `json:"problems"`
}

func (a PolicyEnv) test(file *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "test FILE",
		Short: "test the policies against a table of expectations",
		Long: `Test reads a YAML list of expectations, each with name, principal (subject, issuer, client, groups,
scopes, claims), profile, action (call_tool, get_prompt, read_resource), origin, arguments and want:
allow, step-up, deny, or invisible, which is a deny of an entry that is not listed. Without arguments the
question is whether it may be used with any arguments. It prints nothing if all expectations hold; otherwise it prints each
that does not, and the exit code is 1.` + cli.Of(tested{}),
		Example: "  vmcp policy test policies_test.yaml --config vmcp.yaml",
		Args:    cobra.ExactArgs(1),
	}
	output := a.Output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, set, err := a.policies(*file)
		if err != nil {
			return unusable(err)
		}
		table, err := readExpectations(args[0])
		if err != nil {
			return unusable(err)
		}
		var differing diag.Problems
		for _, e := range table {
			if p := a.compare(c.Context(), cfg, set, e); p != nil {
				differing = append(differing, *p)
			}
		}
		if *output == "json" {
			err = a.JSON(tested{len(table), append(diag.Problems{}, differing...)})
		} else {
			err = a.Problems(differing)
		}
		if err == nil && len(differing) > 0 {
			err = a.Reported
		}
		return err
	}
	return c
}

// compare decides an expectation and returns a problem if the decision differs; nil if not.
func (a PolicyEnv) compare(ctx context.Context, cfg *config.Config, set *policy.Set, e expectation) *diag.Problem {
	differs := func(format string, args ...any) *diag.Problem {
		return &diag.Problem{Pos: e.pos, Code: "policy-test", Message: e.Name + ": " + fmt.Sprintf(format, args...)}
	}
	want, ok := policy.OutcomeOf(e.Want)
	if !ok {
		return differs("want: want allow, step-up, deny or invisible, have %q", e.Want)
	}
	kind, ok := kindOfAction(e.Action)
	if !ok {
		return differs("action: want call_tool, get_prompt or read_resource, have %q", e.Action)
	}
	of, err := policy.Named(cfg, kind, e.Origin)
	if err != nil {
		return differs("origin: %v", err)
	}
	if err := hasProfile(cfg, e.Profile); err != nil {
		return differs("profile: %v", err)
	}
	p := e.Principal
	who := policy.Identity{Issuer: p.Issuer, Subject: p.Subject, Client: p.Client, Groups: p.Groups, Scopes: p.Scopes, Claims: p.Claims, Profile: e.Profile}
	d, err := a.answer(ctx, cfg, set, policy.Question{Who: completed(who, cfg), Of: of, Arguments: e.Arguments})
	if err != nil {
		return differs("%v", err)
	}
	if d.Outcome == want || want == policy.Deny && d.Outcome == policy.Invisible {
		return nil
	}
	by := ""
	if len(d.Policies) > 0 {
		by = " by " + strings.Join(d.Policies, ", ")
	}
	return differs("%s %s: want %s, have %s%s", e.Action, e.Origin, want, d.Outcome, by)
}

// kindOfAction returns the kind of an action, in policy's form or explain's.
func kindOfAction(action string) (policy.Kind, bool) {
	for _, k := range []policy.Kind{policy.Tool, policy.Prompt, policy.Resource} {
		if action == k.Action() || action == k.String() {
			return k, true
		}
	}
	return 0, false
}

// readExpectations reads a table of policy test.
func readExpectations(name string) ([]expectation, error) {
	data, err := files.Read(name, config.MaxFile)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("%s: want a list of expectations, each with name, principal, action, origin and want", name)
	}
	var table []expectation
	for i, node := range doc.Content[0].Content {
		e := expectation{pos: diag.Pos{File: diag.File(name), Line: node.Line, Column: node.Column}}
		text, err := yaml.Marshal(node)
		if err == nil {
			err = jsonyaml.UnmarshalStrict(text, &e)
		}
		if err != nil {
			return nil, diag.Problem{Pos: e.pos, Code: "policy-test", Message: strings.TrimPrefix(causeOf(err).Error(), "error unmarshaling JSON: ")}
		}
		if e.Name == "" {
			e.Name = fmt.Sprintf("expectation %d", i+1)
		}
		table = append(table, e)
	}
	return table, nil
}

func causeOf(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}
