package policy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy/policy"
)

// A world of random policies, and the requests that are decided by them.
var (
	someGroups  = []string{"dev", "ops"}
	someScopes  = []string{"read", "write"}
	someTools   = []string{"files.read", "files.delete", "git.read", "git.b_c"}
	someEntries = []policy.Of{ // tools, prompts, resources and templates
		{Kind: policy.Tool, Name: "files_read", Backend: "files", Original: "read"},
		{Kind: policy.Tool, Name: "files_delete", Backend: "files", Original: "delete"},
		{Kind: policy.Tool, Name: "git_b_c", Backend: "git", Original: "b_c"},
		{Kind: policy.Tool, Name: "deploy", Backend: "scripts", Original: "deploy"},
		{Kind: policy.Prompt, Name: "files_read", Backend: "files", Original: "read"},
		{Kind: policy.Prompt, Name: "git_greet", Backend: "git", Original: "greet"},
		{Kind: policy.Resource, Name: "note://a", Backend: "git", Original: "note://a"},
		{Kind: policy.Resource, Name: "note://a{n}", Backend: "git", Original: "note://a{n}"},
	}
	someTexts   = []string{"", "a", "ab", "b", "ba", "aba"}
	someNumbers = []int{0, 1, 2, 3}
)

// simple returns a condition that is one comparison of one argument.
func simple(r *rand.Rand) string {
	arg := pick(r, []string{"context.arg_x", "context.arg_y", "context.arguments.x"})
	guard := pick(r, []string{"", "", strings.Replace(arg, ".arg", " has arg", 1) + " && "})
	if strings.Contains(arg, "arguments") {
		guard = pick(r, []string{"", "context.arguments has x && "})
	}
	switch r.IntN(7) {
	case 0:
		return guard + fmt.Sprintf("%s == %q", arg, pick(r, someTexts))
	case 1:
		return guard + fmt.Sprintf("%s != %q", arg, pick(r, someTexts))
	case 2:
		return guard + fmt.Sprintf("%s %s %d", arg, pick(r, []string{"<", "<=", ">", ">=", "==", "!="}), pick(r, someNumbers))
	case 3:
		return guard + fmt.Sprintf("%s like %q", arg, pick(r, []string{"a*", "*b", "*", "*a*", "a", "b*a"}))
	case 4:
		return guard + fmt.Sprintf("[%q, %d].contains(%s)", pick(r, someTexts), pick(r, someNumbers), arg)
	case 5:
		return guard + fmt.Sprintf("%s == %s", arg, pick(r, []string{"true", "false", "principal.claim_sub"}))
	}
	return pick(r, []string{"context has arg_x", "context has arg_y", "context has arg_x_present", "context.arguments has y"})
}

// complicated returns any condition.
func complicated(r *rand.Rand) string {
	switch r.IntN(6) {
	case 0:
		return fmt.Sprintf("(%s) && (%s)", complicated(r), simple(r))
	case 1:
		return fmt.Sprintf("(%s) || (%s)", simple(r), complicated(r))
	case 2:
		return fmt.Sprintf("!(%s)", complicated(r))
	case 3:
		return fmt.Sprintf("if %s then %s else %s", simple(r), simple(r), complicated(r))
	case 4:
		return pick(r, []string{"context.arg_x + 1 > 2", "context.arg_x == context.arg_y", "context.arguments.x.contains(1)",
			"context.arg_x like \"a*\" && context.arg_y * 2 == 4", "context.arguments == {x: 1}", "context.arguments.x.y == 1"})
	}
	return simple(r)
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// randomPolicy returns a policy with conditions on arguments made by condition.
func randomPolicy(r *rand.Rand, condition func(*rand.Rand) string) string {
	effect := pick(r, []string{"permit", "permit", "forbid"})
	principal := pick(r, []string{"principal", "principal in THVGroup::\"dev\"", "principal in THVGroup::\"ops\"", "principal == Client::\"bob\""})
	resource := pick(r, []string{"resource", "resource", "resource == Tool::\"files_read\"", "resource in Backend::\"git\"", "resource == Tool::\"a_b_c\"",
		"resource == Prompt::\"files_read\"", "resource is Tool", "resource == Resource::\"note://a\""})
	action := pick(r, []string{`action == Action::"call_tool"`, `action == Action::"call_tool"`, `action`, `action in [Action::"get_prompt", Action::"read_resource"]`, `action == Action::"get_prompt"`})
	var b strings.Builder
	if effect == "permit" && r.IntN(4) == 0 {
		fmt.Fprintf(&b, "@scopes(%q)\n", pick(r, someScopes))
	}
	fmt.Fprintf(&b, "%s(%s, %s, %s)", effect, principal, action, resource)
	if r.IntN(4) == 0 {
		fmt.Fprintf(&b, " when { principal.scopes.contains(%q) }", pick(r, someScopes))
	}
	if r.IntN(5) == 0 {
		b.WriteString(" when { resource.backend == \"git\" }")
	}
	if r.IntN(3) > 0 {
		fmt.Fprintf(&b, " %s { %s }", pick(r, []string{"when", "when", "unless"}), condition(r))
	}
	return b.String() + ";"
}

// everyArgument has the values of arguments in the random world.
var everyArgument = func() (all []string) {
	values := []string{"", `null`, `1.5`, `2.0`, `true`, `false`, `[]`, `[1]`, `["a"]`, `{}`, `{"y":1}`}
	for _, n := range append([]int{-1, 4, 5}, someNumbers...) {
		values = append(values, fmt.Sprint(n))
	}
	for _, s := range append([]string{"c", "ac", "cb", "acb", "bb", "bca", "aa", "bob", "eve"}, someTexts...) {
		values = append(values, fmt.Sprintf("%q", s))
	}
	for _, x := range values {
		for _, y := range values {
			var members []string
			if x != "" {
				members = append(members, `"x":`+x)
			}
			if y != "" {
				members = append(members, `"y":`+y)
			}
			all = append(all, "{"+strings.Join(members, ",")+"}")
		}
	}
	return all
}()

// argumentsFor returns the arguments to try on policies: arg_x_present is the attribute for an x that
// is a list, and also for a scalar argument named x_present.
func argumentsFor(policies string) []string {
	all := slices.Clone(everyArgument)
	if !strings.Contains(policies, "arg_x_present") {
		return all
	}
	for _, a := range everyArgument {
		rest := strings.TrimPrefix(a, "{")
		if rest != "}" {
			rest = "," + rest
		}
		all = append(all, `{"x_present":true`+rest)
	}
	return all
}

// TestListedIsCallable compares Possible with Decide: an entry that is allowed with some
// arguments is listed, for all policies; and a listed entry is allowed with some arguments,
// if each condition is a comparison of one argument.
func TestListedIsCallable(t *testing.T) {
	rounds := testmode.Count(2, 300)
	for _, kind := range []struct {
		name      string
		condition func(*rand.Rand) string
		exact     bool
	}{{"simple", simple, true}, {"any", complicated, false}} {
		t.Run(kind.name, func(t *testing.T) {
			listed, hidden := 0, 0
			for seed := range uint64(rounds) {
				r := rand.New(rand.NewPCG(seed, 1))
				var policies []string
				for range 1 + r.IntN(5) {
					policies = append(policies, randomPolicy(r, kind.condition))
				}
				text := strings.Join(policies, "\n")
				set := compiled(t, "policies:\n  - |\n    "+strings.ReplaceAll(text, "\n", "\n    "))
				id := policy.Identity{Subject: pick(r, []string{"bob", "eve"})}
				for _, g := range someGroups {
					if r.IntN(2) == 0 {
						id.Groups = append(id.Groups, g)
					}
				}
				for _, s := range someScopes {
					if r.IntN(3) == 0 {
						id.Scopes = append(id.Scopes, s)
					}
				}
				p, arguments := set.Principal(id), argumentsFor(text)
				for _, of := range someEntries {
					origin := of.Kind.String() + " " + of.Backend + "." + of.Original
					of.Contested = r.IntN(4) == 0
					e := set.Entry(of)
					is := set.Possible(p, e).Outcome
					can := policy.Invisible
					args := ""
					for _, a := range arguments {
						d := set.Decide(p, e, json.RawMessage(a)).Outcome
						if d == policy.Deny && is == policy.Invisible || d == policy.Invisible && is != policy.Invisible {
							t.Fatalf("seed %d: Possible = %v, Decide(%s) = %v\n%v %s\n%s", seed, is, a, d, id, origin, text)
						}
						if d > can {
							can, args = d, a
						}
					}
					can = max(can, policy.Deny)
					if can == policy.Deny {
						can = policy.Invisible
					}
					switch {
					case is < can:
						t.Fatalf("seed %d: %v and yet %v with %s\n%+v %s\n%s", seed, is, can, args, id, origin, text)
					case kind.exact && is > can:
						t.Fatalf("seed %d: %v and yet never more than %v\n%+v %s\n%s", seed, is, can, id, origin, text)
					case is > policy.Invisible:
						listed++
					default:
						hidden++
					}
				}
			}
			if listed == 0 || hidden == 0 {
				t.Errorf("%d listed, %d hidden: this tests nothing", listed, hidden)
			}
		})
	}
}

// TestClassesAreEnough: principals of one class have the same lists.
func TestClassesAreEnough(t *testing.T) {
	rounds := 30
	if testmode.Thorough() {
		rounds = 5000
	}
	same := 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 2))
		var policies []string
		for range 1 + r.IntN(4) {
			policies = append(policies, randomPolicy(r, complicated))
		}
		set := compiled(t, "policies:\n  - |\n    "+strings.ReplaceAll(strings.Join(policies, "\n"), "\n", "\n    "))
		seen := map[[32]byte][]string{}
		for range 12 {
			id := policy.Identity{Subject: pick(r, []string{"bob", "eve", "a"}), Groups: pick(r, [][]string{nil, {"dev"}, {"ops"}, {"dev", "ops"}, {"x", "dev"}}),
				Scopes: pick(r, [][]string{nil, {"read"}, {"write"}, {"z", "write"}})}
			p := set.Principal(id)
			var view []string
			for _, origin := range someTools {
				view = append(view, origin+set.Possible(p, tool(set, origin)).Outcome.String())
			}
			if known := seen[p.Class()]; known != nil && !slices.Equal(known, view) {
				t.Fatalf("seed %d: one class sees %v and %v\n%s", seed, known, view, strings.Join(policies, "\n"))
			} else if known != nil {
				same++
			}
			seen[p.Class()] = view
		}
	}
	if same == 0 {
		t.Error("no two principals of one class: this tests nothing")
	}
}
