package builtins_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
)

// TestEveryTextIsPaid passes a long text as every argument of every builtin, at its place and by its name. Each call takes
// steps for it, also one that is refused for what the text says. The functions of package math refuse any text unread.
func TestEveryTextIsPaid(t *testing.T) {
	const length = 1 << 20
	limits := script.Limits{Steps: length / 64}
	pays := func(call string) {
		synctest.Test(t, func(t *testing.T) {
			err := execWithin(t, "test.star", fmt.Sprintf("n, s = 1, \"1\" * %d\n%s", length, call), limits)
			if err == nil || !strings.Contains(err.Error(), "limit reached: steps") && !strings.HasPrefix(call, "math.") {
				t.Errorf("%s: %.300v", call, err)
			}
		})
	}
	for name, signature := range signatures() {
		for i, p := range strings.Split(signature, ", ") {
			if p == "" {
				continue // it takes nothing
			}
			pays(name + "(" + strings.Repeat("n, ", i) + "s)")
			pays(name + "(" + strings.Split(strings.TrimLeft(p, "*"), "=")[0] + "=s)")
		}
	}
	for _, attempt := range []string{
		`re.search("(" * 4000, "")`,
		`re.search("\\PL" * 1300 + "(", "")`,
		`re.match("(?i)" + "[B-\\x{1E942}]" * 250, "")`,
		`elicit("?", {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?i)" + "[B-\\x{1E942}]" * 250}}})`,
	} {
		pays("retry(lambda: " + attempt + ", max_attempts=20, delay=0)")
	}
}

// signatures are the parameters of all builtins, by name.
func signatures() map[string]string {
	all := map[string]string{}
	for _, b := range builtins.Table() {
		m, ok := b.Value.(*starlarkstruct.Module)
		if !ok {
			all[b.Name] = parameters(strings.Split(b.Signature, " or ")[0])
			continue
		}
		for name, v := range m.Members {
			if _, ok := v.(*starlark.Builtin); ok {
				all[b.Name+"."+name] = parameters(b.Members[name].Signature)
			}
		}
	}
	return all
}

// parameters are what is between the parentheses of a signature.
func parameters(signature string) string {
	_, inside, _ := strings.Cut(signature, "(")
	return strings.TrimSuffix(inside, ")")
}
