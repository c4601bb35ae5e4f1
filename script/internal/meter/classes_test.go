package meter_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.starlark.net/lib/math"
	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"github.com/vmcp-dev/vmcp/script/internal/metertest"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/limits.md")

const limitsPage = "../../../docs/limits.md"

// dialect is the one of scripts.
var dialect = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// The tables below say of everything that the interpreter can do at one step what it
// costs and who charges it. What a new version of the interpreter brings is in no table,
// and the tests fail until somebody has thought about it.

const (
	noOperator = "no operation of its own"
	native     = "native: " // at most a step's worth, because …
)

var tokenClasses = map[syntax.Token]string{
	syntax.PLUS: "bytes of the result", syntax.MINUS: "bytes of the result; sets: entries and hashes of both",
	syntax.STAR: "bytes of the result", syntax.SLASH: "bits of large integers",
	syntax.SLASHSLASH: "bits of large integers", syntax.PERCENT: "bits of large integers; format: text of its operands",
	syntax.AMP: "bits, or entries and hashes of both", syntax.PIPE: "bits, or entries and hashes of both",
	syntax.CIRCUMFLEX: "bits, or entries and hashes of both", syntax.LTLT: "bits of the result", syntax.GTGT: "bits of the operand",
	syntax.TILDE: "bits of the operand",

	syntax.PLUS_EQ: "as +; lists: the elements that are appended", syntax.MINUS_EQ: "as -", syntax.STAR_EQ: "as *", syntax.SLASH_EQ: "as /",
	syntax.SLASHSLASH_EQ: "as //", syntax.PERCENT_EQ: "as %", syntax.AMP_EQ: "as &", syntax.PIPE_EQ: "as |; dicts: the entries that are added",
	syntax.CIRCUMFLEX_EQ: "as ^", syntax.LTLT_EQ: "as <<", syntax.GTGT_EQ: "as >>",

	syntax.EQL: "every element, key and block of text that is looked at", syntax.NEQ: "as ==", syntax.LT: "as ==",
	syntax.GT: "as ==", syntax.LE: "as ==", syntax.GE: "as ==",
	syntax.IN: "every element that is compared; the hash of the key; the text that is searched", syntax.NOT_IN: "as in",

	syntax.EQ:       "x[i] = v: the hash of i and an entry",
	syntax.LBRACK:   "x[i]: the hash of i; x[a:b]: the elements that are copied; [...]: 16 bytes for each step",
	syntax.LBRACE:   "{...}: the dict, its entries, the hashes of its keys; comprehensions: as many assignments",
	syntax.LPAREN:   "f(*a, **k): elements and entries; f(): steps, and a frame of more than 500 nodes; **kwargs: a dict; (...): as [...]",
	syntax.DOT:      "methods: see there; fields: native, a lookup by a literal name",
	syntax.STARSTAR: "see f(**k)",
	syntax.LAMBDA:   "the function and what it captures",
	syntax.DEF:      "the function and what it captures, as steps",
	syntax.FOR:      native + "a round is three steps at least, and makes one element",
	syntax.WHILE:    native + "a round is three steps at least",
	syntax.AND:      native + "looks at the truth of a value, which no type computes", syntax.OR: native + "as and", syntax.NOT: native + "as and",
	syntax.IF: native + "as and", syntax.ELSE: noOperator, syntax.ELIF: native + "as and",
	syntax.LOAD: "the statements of the file, once in a run", syntax.RETURN: native + "moves a value", syntax.BREAK: native + "a jump",
	syntax.CONTINUE: native + "a jump", syntax.PASS: noOperator,

	syntax.ILLEGAL: noOperator, syntax.EOF: noOperator, syntax.NEWLINE: noOperator, syntax.INDENT: noOperator, syntax.OUTDENT: noOperator,
	syntax.IDENT: native + "a variable", syntax.INT: native + "a constant, at most 4096 digits", syntax.FLOAT: native + "a constant",
	syntax.STRING: native + "a constant", syntax.BYTES: native + "a constant", syntax.COMMA: noOperator, syntax.SEMI: noOperator,
	syntax.COLON: noOperator, syntax.RPAREN: noOperator, syntax.RBRACK: noOperator, syntax.RBRACE: noOperator,
}

// reserved are the words that the language keeps for later: the parser refuses them.
const reserved = " as assert async await class del except finally from global import is nonlocal raise try with yield "

var universeClasses = map[string]string{
	"None": native + "a constant", "True": native + "a constant", "False": native + "a constant",
	"bool": native + "looks at the truth of a value", "chr": native + "a string of one character", "len": native + "no type counts",
	"range": native + "three numbers; its elements are made when they are asked for", "type": native + "a name",
	"abs": "bits of the operand", "all": "the elements that are looked at", "any": "the elements that are looked at",
	"bytes": "bytes of the result", "dict": "the dict, its entries, the hashes of its keys", "dir": "the names",
	"enumerate": "pairs and numbers", "fail": "the text", "float": "the text that is read",
	"getattr": "the name; methods are the metered ones", "hasattr": "the name", "hash": "the text that is read",
	"int": "the text that is read, at most 4096 characters", "list": "the elements", "max": "the elements, and each comparison",
	"min": "as max", "ord": "the text that is read", "print": "the text; logBytes", "repr": "the text, while it is written",
	"reversed": "the elements", "set": "the set, its entries, the hashes of its keys", "sorted": "the elements, and each comparison",
	"str": "the text, while it is written", "tuple": "the elements", "zip": "the rows",
}

var methodClasses = map[string]map[string]string{
	"bytes": {"elems": native + "a view"},
	"string": {
		"codepoint_ords": native + "a view", "codepoints": native + "a view", "elem_ords": native + "a view", "elems": native + "a view",
		"capitalize": "bytes of the result", "count": "the text that is searched", "endswith": "the text that is compared, each of a tuple",
		"find": "the text that is searched", "format": "fields times the longest operand", "index": "the text that is searched",
		"isalnum": "the text that is read", "isalpha": "the text that is read", "isdigit": "the text that is read", "islower": "bytes of a copy",
		"isspace": "the text that is read", "istitle": "the text that is read", "isupper": "bytes of a copy", "join": "bytes of the result",
		"lower": "bytes of the result", "lstrip": "text times characters", "partition": "the text that is searched",
		"removeprefix": "the text that is compared", "removesuffix": "the text that is compared", "replace": "bytes of the result",
		"rfind": "the text that is searched", "rindex": "the text that is searched", "rpartition": "the text that is searched",
		"rsplit": "the pieces", "rstrip": "text times characters", "split": "the pieces", "splitlines": "the pieces",
		"startswith": "the text that is compared, each of a tuple", "strip": "text times characters", "title": "bytes of the result", "upper": "bytes of the result",
	},
	"list": {
		"append": native + "16 bytes in five steps, copies of a growing list included",
		"clear":  "the elements", "extend": "the elements", "index": "each comparison", "insert": "the elements that move",
		"pop": "the elements that move", "remove": "each comparison, the elements that move",
	},
	"dict": {
		"clear": "the largest size of the table", "get": "the hash", "items": "the pairs", "keys": "the keys", "pop": "the hash",
		"popitem": "the hash", "setdefault": "the hash and an entry", "update": "entries and hashes", "values": "the values",
	},
	"set": {
		"add": "the hash and an entry", "clear": "the largest size of the table", "difference": "entries and hashes of both", "discard": "the hash",
		"intersection": "entries and hashes of both", "issubset": "entries and hashes of both", "issuperset": "entries and hashes of both",
		"pop": "the hash", "remove": "the hash", "symmetric_difference": "entries and hashes of both", "union": "entries and hashes of both",
		"update": "entries and hashes",
	},
}

// tokens returns every token of the language.
func tokens() (all []syntax.Token) {
	defer func() { recover() }() // there is no last token to ask for
	for tok := syntax.Token(0); ; tok++ {
		_ = tok.String()
		all = append(all, tok)
	}
}

func TestEveryTokenIsClassified(t *testing.T) {
	all := tokens()
	if len(all) < 50 {
		t.Fatalf("found %d tokens, want all of them", len(all))
	}
	for _, tok := range all {
		if tokenClasses[tok] == "" && !strings.Contains(reserved, " "+tok.String()+" ") {
			t.Errorf("token %q is not classified: what does it cost, and who charges it?", tok)
		}
	}
	for op := range meter.OperatorKinds {
		if !slices.Contains(meter.OperatorNames[:], op) {
			t.Errorf("operator %q has no name in operatorNames", op)
		}
	}
}

func TestEveryUniversalNameIsClassified(t *testing.T) {
	for name := range starlark.Universe {
		class := universeClasses[name]
		_, metered := meter.MeteredFunctions[name]
		switch {
		case class == "":
			t.Errorf("%s is not classified: what does it cost, and who charges it?", name)
		case metered == strings.HasPrefix(class, native):
			t.Errorf("%s is called %q; metered: %v", name, class, metered)
		case metered == meter.NativeUniverse[name]:
			t.Errorf("%s must be either metered or native", name)
		}
	}
}

func TestEveryMethodIsClassified(t *testing.T) {
	for _, x := range []starlark.HasAttrs{starlark.String(""), starlark.Bytes(""), new(starlark.List), new(starlark.Dict), new(starlark.Set)} {
		for _, name := range x.AttrNames() {
			class := methodClasses[x.Type()][name]
			_, metered := meter.MethodsOf(x)[name]
			switch {
			case class == "":
				t.Errorf("%s.%s is not classified: what does it cost, and who charges it?", x.Type(), name)
			case metered == strings.HasPrefix(class, native):
				t.Errorf("%s.%s is called %q; metered: %v", x.Type(), name, class, metered)
			}
		}
		for name := range meter.MethodsOf(x) {
			if !slices.Contains(x.AttrNames(), name) {
				t.Errorf("%s.%s is metered and does not exist", x.Type(), name)
			}
		}
	}
}

// Other values that a script can hold have no methods that could do any work, and
// know how to iterate only in ways that sized and collect bound.
func TestOtherValuesHaveNoMethods(t *testing.T) {
	thread := metertest.Thread(meter.Amount{Steps: 1e6, Memory: 1 << 20}, 200)
	for _, src := range []string{
		"1", "1.5", "True", "None", "(1, 2)", "range(3)", "len", "'a'.elems()", "'a'.codepoints()", "b'a'.elems()", "(lambda: 1)",
	} {
		v, err := starlark.EvalOptions(dialect, thread, "value.star", src, nil)
		if err != nil {
			t.Fatal(err)
		}
		if x, ok := v.(starlark.HasAttrs); ok && len(x.AttrNames()) > 0 {
			t.Errorf("%s has methods %v: classify them", v.Type(), x.AttrNames())
		}
	}
	if s := starlarkstruct.FromStringDict(starlarkstruct.Default, nil); len(s.AttrNames()) > 0 {
		t.Errorf("a struct has methods %v", s.AttrNames())
	}
}

// The modules that come from the interpreter's repository work on numbers and short
// texts; a function that is new there has to be looked at.
func TestModulesAreWhatTheyWere(t *testing.T) {
	for _, tt := range []struct {
		module *starlarkstruct.Module
		want   string
	}{
		{math.Module, "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees e exp fabs floor gamma hypot log mod pi pow radians remainder round sin sinh sqrt tan tanh"},
		{startime.Module, "from_timestamp hour is_valid_timezone microsecond millisecond minute nanosecond now parse_duration parse_time second time"},
	} {
		if got := strings.Join(tt.module.Members.Keys(), " "); got != tt.want {
			t.Errorf("module %s has\n  %s\nbut the table has\n  %s", tt.module.Name, got, tt.want)
		}
	}
}

// TestClassesInDocs/limits.md shows the tables.
func TestClassesInDocs(t *testing.T) {
	rows := []string{"| what | charged |", "|---|---|"}
	row := func(name, class string) {
		if class != noOperator {
			rows = append(rows, fmt.Sprintf("| `%s` | %s |", strings.ReplaceAll(name, "|", "\\|"), strings.ReplaceAll(class, "|", "\\|")))
		}
	}
	for _, tok := range tokens() {
		row(tok.String(), tokenClasses[tok])
	}
	for _, name := range slices.Sorted(maps.Keys(universeClasses)) {
		row(name, universeClasses[name])
	}
	for _, typ := range slices.Sorted(maps.Keys(methodClasses)) {
		for _, name := range slices.Sorted(maps.Keys(methodClasses[typ])) {
			row(typ+"."+name, methodClasses[typ][name])
		}
	}
	want := strings.Join(rows, "\n")
	if *update {
		metertest.WriteTable(t, limitsPage, "operations", want)
		return
	}
	data, err := os.ReadFile(limitsPage)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), want) {
		t.Error("docs/limits.md does not have these tables: run the tests with -update")
	}
}
