package check_test

import (
	"os"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/codes"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// nearMisses look like the mistake of a code, but are correct. A text without run is the body of one; "-- name" begins
// a file of several.
var nearMisses = map[string][]string{
	"syntax": {
		`return "f\"{x}\" and try: are words here"`,
		"is_new, imported = True, 1 # import x; a is b\nreturn [is_new, imported]",
		"x = {\"class\": 1, \"try\": 2}\nreturn x[\"class\"] if 1 <= x[\"try\"] and x[\"try\"] <= 3 else None",
	},
	"undefined": {
		"def run(params):\n    return late(params)\n\ndef late(x):\n    return x",
		"fns = {\"call_tol\": 1}\nreturn fns[\"call_tol\"]",
		"xs = [y for x in [[1]] for y in x]\nreturn [lambda x: x, xs][1]",
	},
	"load": {
		"load(\"money.star\", \"euros\")\n\ndef run(params):\n    return euros(1)",
		"load(\"money.star\", show = \"euros\")\n\ndef run(params):\n    return show(1)",
		"def run(params):\n    load_ = \"monney.star\"\n    return load_",
	},
	"tool-declaration": {
		"tool(name = \"abc\", description = \"A \" + \"tool.\", timeout = \"1d12h\")\n\ndef run(params):\n    return 1",
		"P = {\"type\": \"object\"}\ntool(name = \"abc\", description = \"A.\", parameters = P, annotations = {\"readOnlyHint\": True})\n\ndef run(params):\n    return 1",
		"tool(name = \"a-b_c.d\", description = \"A.\", title = \"A/b\")\n\ndef run(params, _extra = None):\n    return 1",
	},
	"tool-cycle": {
		"-- a\ndef run(params):\n    return call_tool(\"b\") if params.get(\"x\") else 1\n-- b\ndef run(params):\n    return call_tool(\"a\")",
		"-- a\ndef run(params):\n    if not params:\n        return 0\n    return call_tool(\"a\")\n-- b\ndef run(params):\n    return call_tool(\"a\", params)",
		"-- a\ndef run(params):\n    return [lambda: call_tool(\"b\")][:0]\n-- b\ndef run(params):\n    return call_tool(\"a\")",
	},
	"schema": {
		`tool(name = "abc", description = "A.", parameters = {"type": "object", "properties": {"type": {"type": "string"}, "requierd": {"type": ["integer", "null"]}}})` + "\n\ndef run(params):\n    return [params.get(\"type\"), params.get(\"requierd\")]",
		`tool(name = "abc", description = "A.", parameters = {"type": "object", "properties": {"a": {"$ref": "#/$defs/int"}}, "$defs": {"int": {"type": "integer"}}, "x-note": 1})` + "\n\ndef run(params):\n    return params.get(\"a\")",
		`tool(name = "abc", description = "A.", parameters = {"type": "object", "properties": {}, "required": ["a"], "additionalProperties": {"type": "string"}})` + "\n\ndef run(params):\n    return params[\"a\"]",
	},
	"schema-default": {
		`tool(name = "abc", description = "A.", parameters = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9, "default": 9}, "x": {"type": "number", "default": 1}}})` + "\n\ndef run(params):\n    return params[\"n\"]",
		`tool(name = "abc", description = "A.", parameters = {"type": "object", "properties": {"default": {"type": "string"}, "n": {"type": ["integer", "null"], "default": None}}})` + "\n\ndef run(params):\n    return params.get(\"default\")",
		`tool(name = "abc", description = "A.", parameters = {"type": "object", "properties": {"n": {"enum": ["a", 1], "default": 1}, "l": {"type": "array", "items": {"type": "string"}, "default": []}}})` + "\n\ndef run(params):\n    return params[\"l\"]",
	},
	"form": {
		`return elicit("Where?", {"type": "object", "properties": {"address": {"type": "string", "format": "uri"}, "object": {"type": "boolean", "default": False}}}).action`,
		`return elicit("Which?", {"type": "object", "properties": {"a": {"type": "string", "enum": ["x", "y"]}, "b": {"type": "integer", "minimum": 1}}, "required": ["a"]}).action`,
		"form = {\"type\": \"object\", \"properties\": {k: {\"type\": \"string\"} for k in [\"a\", \"b\"]}}\nreturn elicit(\"Fill in\", form).action",
	},
	"call-arity": {
		"def f(a, b = 2, *rest, **more):\n    return [a, b, rest, more]\n\ndef run(params):\n    return [f(1), f(1, 2, 3, 4), f(a = 1, c = 2)]",
		"def f(a, b):\n    return a + b\n\ndef run(params):\n    pair = (1, 2)\n    return [f(*pair), f(**{\"a\": 1, \"b\": 2})]",
		"def f(x):\n    return x\n\ndef run(params):\n    g = f if params else (lambda a, b: a)\n    return [sorted([2, 1], key = f), g]",
	},
	"call-keyword": {
		"return retry(lambda: 1, max_attempts = 4, delay = \"1s\")",
		"def f(**kw):\n    return kw\n\ndef run(params):\n    return f(tries = 4)",
		"return [struct(tries = 4).tries, dict(tries = 1), log(\"x\", tries = 4)]",
	},
	"builtin-value": {
		"make = lambda x: (lambda: call_tool(\"shop_orders\", {\"cursor\": x}))\nreturn parallel([make(\"1\"), make(\"2\")])",
		"log(\"x\", level = \"warning\")\nsleep(0.5)\nsleep(\"1m30s\")\nreturn \", \".join([str(x) for x in [1, 2]])",
		"level = \"debug\" if params.get(\"v\") else \"info\"\nlog(str([1]), level = level)\nreturn \",\".join([\"a\"] + list(params))",
	},
	"module-member": {
		"time = struct(sleep = lambda s: s)\nreturn time.sleep(1)",
		"return [math.floor(2.5), json.encode({}), re.findall(\"a\", \"a\"), time.now().year]",
		"def f(math):\n    return math[\"floor_div\"]\n\ndef run(params):\n    return f({\"floor_div\": 1})",
	},
	"method": {
		"s = struct(trimmed = lambda: 1)\nreturn s.trimmed()",
		"x = params.get(\"x\")\nreturn x.anything()",
		"return \" a \".strip().upper().split(\"A\")[0].removeprefix(\"x\")",
	},
	"attribute": {
		"r = try_call_tool(\"shop_orders\")\nreturn [r.ok, r.output, r.error, r.kind]",
		"r = struct(value = 1)\nreturn r.value",
		"xs = [struct(a = 1), struct(b = 2)]\nreturn [getattr(x, \"b\", None) for x in xs] + [hasattr(xs[0], \"c\")]",
	},
	"tool-unknown": {
		`return call_tool("shop_" + "get_order", {"id": "1"})`,
		"names = [\"shop_get_order\", params[\"tool\"]]\nreturn [call_tool(n, {\"id\": \"1\"}) for n in names]",
		"call = lambda name, args: [name, args]\nreturn call(\"shop_getorder\", {\"id\": \"1\"})",
	},
	"argument-missing": {
		"args = {\"order\": \"A1\"}\nargs[\"cents\"] = 5\nreturn call_tool(\"shop_refund\", args)",
		"return call_tool(\"shop_refund\", {\"order\": \"A1\"} | dict(cents = 5))",
		"args = {\"order\": \"A1\"}\nargs.update(params)\nreturn call_tool(\"shop_refund\", args)",
	},
	"argument-unknown": {
		"args = {\"order\": \"A1\", \"cents\": 5, \"amount\": 5}\nargs.pop(\"amount\")\nreturn call_tool(\"shop_refund\", args)",
		"return call_tool(\"shop_orders\", {\"kursor_of_mine\": \"x\"})",
		"amount = {\"amount\": 5}\nreturn [amount, call_tool(\"shop_refund\", {\"order\": \"A1\", \"cents\": amount[\"amount\"]})]",
	},
	"argument-type": {
		"return call_tool(\"shop_refund\", {\"order\": str(5), \"cents\": int(\"5\")})",
		"cents = json.decode(\"5\")\nreturn call_tool(\"shop_refund\", {\"order\": \"A1\", \"cents\": cents})",
		"return call_tool(\"shop_refund\", {\"order\": \"%d\" % 5, \"cents\": 500 * 2 // 3})",
	},
	"argument-value": {
		"return call_tool(\"shop_refund\", {\"order\": \"A1\", \"cents\": 500000, \"reason\": \"broken\"})",
		"reason = \"lost\"\nif reason not in (\"late\", \"broken\"):\n    reason = \"late\"\nreturn call_tool(\"shop_refund\", {\"order\": \"A1\", \"cents\": 1, \"reason\": reason})",
		"return [call_tool(\"shop_refund\", without_none({\"order\": \"A1\", \"cents\": c, \"reason\": None})) for c in [1, 2]]",
	},
	"result-field": {
		"order = call_tool(\"shop_get_order\", {\"id\": \"1\"})\nreturn order.get(\"state\", order[\"status\"])",
		"order = call_tool(\"shop_get_order\", {\"id\": \"1\"})\norder[\"state\"] = order[\"status\"]\nreturn order[\"state\"]",
		"order = dict(call_tool(\"shop_get_order\", {\"id\": \"1\"}), state = 1)\nreturn order[\"state\"]",
	},
	"pages": {
		"return [o[\"id\"] for o in pages(\"shop_orders\", items = \"orders\", next = \"next\")]",
		"return [p[\"orders\"] for p in pages(\"shop_orders\", items = None, next = \"next\")]",
		"where = params.get(\"where\", \"orders\")\nreturn len([o for o in pages(\"shop_orders\", items = where, next = \"next\")])",
	},
	"optional-field": {
		"order = call_tool(\"shop_get_order\", {\"id\": \"1\"})\nreturn order[\"coupon\"] if \"coupon\" in order else \"\"",
		"order = call_tool(\"shop_get_order\", {\"id\": \"1\"})\nif not order.get(\"coupon\"):\n    return \"\"\nreturn order[\"coupon\"]",
		"order = {\"coupon\": \"\"} | call_tool(\"shop_get_order\", {\"id\": \"1\"})\nreturn order[\"coupon\"]",
	},
	"maybe-none": {
		"email = call_tool(\"shop_get_order\", {\"id\": \"1\"})[\"buyer\"][\"email\"]\nreturn (email or \"\").lower()",
		"order = call_tool(\"shop_get_order\", {\"id\": \"1\"})\nwhile order[\"buyer\"][\"email\"] == None:\n    order = call_tool(\"shop_get_order\", {\"id\": \"1\"})\nreturn order[\"buyer\"][\"email\"].lower()",
		"m = re.match(\"a(b)\", params[\"x\"])\nreturn m.groups[0] if m else None",
	},
	"never-equal": {
		"order = call_tool(\"shop_get_order\", {\"id\": \"1\"})\nreturn order[\"status\"] == params[\"payed\"]",
		"order = call_tool(\"shop_get_order\", {\"id\": \"1\"})\nreturn order[\"status\"].upper() == \"PAID\" or order.get(\"coupon\") == \"payed\"",
		"state = \"payed\" if params else call_tool(\"shop_get_order\", {\"id\": \"1\"})[\"status\"]\nreturn state == \"payed\"",
	},
	"parameter-unknown": {
		"tool(name = \"abc\", description = \"A.\", parameters = {\"type\": \"object\", \"properties\": {\"order\": {\"type\": \"string\"}}, \"additionalProperties\": True})\n\ndef run(params):\n    return params.get(\"oder\")",
		"tool(name = \"abc\", description = \"A.\", parameters = {\"type\": \"object\", \"properties\": {\"order\": {\"type\": \"string\"}}})\n\ndef run(params):\n    params = dict(params)\n    params[\"oder\"] = 1\n    return params[\"oder\"]",
		"tool(name = \"abc\", description = \"A.\", parameters = {\"type\": \"object\", \"properties\": {\"order\": {\"type\": \"object\"}}, \"required\": [\"order\"]})\n\ndef run(params):\n    return params[\"order\"][\"oder\"]",
	},
	"parameter-optional": {
		"tool(name = \"abc\", description = \"A.\", parameters = {\"type\": \"object\", \"properties\": {\"note\": {\"type\": \"string\", \"default\": \"\"}}})\n\ndef run(params):\n    return params[\"note\"]",
		"tool(name = \"abc\", description = \"A.\", parameters = {\"type\": \"object\", \"properties\": {\"note\": {\"type\": \"string\"}}})\n\ndef run(params):\n    if \"note\" not in params:\n        fail(\"no note\")\n    return params[\"note\"]",
		"tool(name = \"abc\", description = \"A.\", parameters = {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\"}, \"b\": {\"type\": \"string\"}}, \"anyOf\": [{\"required\": [\"a\"]}, {\"required\": [\"b\"]}]})\n\ndef run(params):\n    return params[\"a\"] if \"a\" in params else params[\"b\"]",
	},
	"output": {
		"tool(name = \"abc\", description = \"A.\", output = {\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"number\"}}})\n\ndef run(params):\n    return {\"n\": len(params), \"more\": 1}",
		"tool(name = \"abc\", description = \"A.\", output = {\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}}, \"required\": [\"n\"]})\n\ndef run(params):\n    out = {}\n    out[\"n\"] = 1\n    return out",
		"tool(name = \"abc\", description = \"A.\", output = {\"type\": \"object\", \"properties\": {\"n\": {\"type\": [\"integer\", \"null\"]}}})\n\ndef run(params):\n    return {\"n\": None} if params else result(structured = {\"n\": 1})",
	},
	"return-missing": {
		"tool(name = \"abc\", description = \"A.\", output = {\"type\": \"object\"})\n\ndef run(params):\n    if params:\n        return {}\n    fail(\"no\")",
		"tool(name = \"abc\", description = \"A.\", output = {\"type\": \"object\"})\n\ndef run(params):\n    while True:\n        if params:\n            return {}",
		"tool(name = \"abc\", description = \"A.\", output = {\"type\": [\"object\", \"null\"]})\n\ndef run(params):\n    if params:\n        return {}",
	},
	"operand": {
		"return \"total: \" + str(5) + \"x\" * 3",
		"x = params[\"x\"]\nreturn [\"a\" + x, 1 + x]",
		"return [[1] + [\"a\"], (1,) + (2,), {\"a\": 1} | {\"b\": 2}, 3 * [0], 7 // 2.0]",
	},
	"format": {
		"return \"%d of %d (100%%)\" % (1, len(params))",
		"pair = (1, 2)\nreturn \"%s and %s\" % pair",
		"return \"%(n)d {not a field}\" % {\"n\": 1} + \"{0} {0} {x}\".format(1, x = 2)",
	},
	"index": {
		"return [x for x in range(5)][-1]",
		"xs = [(1, 2)]\nreturn [a + b for a, b in xs] + [xs[0][1], \"abc\"[1]]",
		"x = params[\"x\"]\nreturn [x[0], x[\"a\"], x()]",
	},
	"immutable": {
		"s = [struct(a = 1)]\ns[0] = struct(a = 2)\nreturn s[0].a",
		"t = (1, [2])\nt[1].append(3)\nreturn t",
		"x = \"ab\"\nx += \"c\"\nreturn x",
	},
	"changed-in-loop": {
		"d = {\"a\": 1}\nfor k in d.keys():\n    d.pop(k)\nreturn d",
		"xs = [1, 2]\nfor x in xs:\n    if x == 1:\n        xs.append(3)\n        break\nreturn xs",
		"xs, ys = [1, 2], []\nfor x in xs:\n    ys.append(x)\nreturn ys",
	},
	"scope": {
		"LIMIT = 3\n\ndef run(params):\n    limit = LIMIT\n    limit += 1\n    return limit",
		"LIMIT = [3]\n\ndef run(params):\n    LIMIT = [1]\n    LIMIT[0] += 1\n    return LIMIT",
		"STATE = {\"n\": 1}\n\ndef run(params):\n    total = STATE[\"n\"]\n    def inner():\n        return total\n    return inner()",
	},
	"duplicate-key": {
		"return {\"a\": 1, \"A\": 2, 1: \"x\", \"1\": \"y\"}",
		"k = \"a\"\nreturn {k: 1, \"b\": 2}",
		"return [{\"a\": 1}, {\"a\": 2}, {\"x\": {\"a\": 1}, \"a\": 2}]",
	},
	"regexp": {
		"return re.findall(\"(?i)x[(]?=y\", \"xy\")",
		"return re.sub(\"(a)(b)\", \"\\\\2\\\\1\", \"ab\")",
		"return \"(?=x)\" + re.split(params.get(\"sep\", \",\"), \"a,b\")[0]",
	},
	"recursion": {
		"def total(n):\n    return n + total(n - 1) if n else 0\n\ndef run(params):\n    return total(3)",
		"def walk(t):\n    for c in t:\n        walk(c)\n\ndef run(params):\n    walk([[], [[]]])\n    return 1",
		"def even(n):\n    return n == 0 or odd(n - 1)\n\ndef odd(n):\n    return n != 0 and even(n - 1)\n\ndef run(params):\n    return even(4)",
	},
	"limit": {
		"tool(name = \"abc\", description = \"A.\", limits = {\"lifetime\": \"10s\"})\n\ndef run(params):\n    sleep(\"9s\")\n    return 1",
		"tool(name = \"abc\", description = \"A.\", limits = {\"lifetime\": \"10s\"})\n\ndef run(params):\n    sleep(\"10s\")\n    return 1",
		"tool(name = \"abc\", description = \"A.\", limits = {\"lifetime\": \"10s\"})\n\ndef run(params):\n    sleep(params.get(\"wait\", 8))\n    return 1",
	},
	"unreachable": {
		"if params:\n    return 1\nlog(\"done\")\nreturn 2",
		"for x in params:\n    if x:\n        continue\n    log(str(x))\nreturn 1",
		"while True:\n    if params:\n        break\nreturn 1",
	},
	"closure": {
		"fns = []\nfor x in params:\n    fns.append(lambda x = x: x)\nreturn [f() for f in fns]",
		"return [sorted(params, key = lambda p: p == x) for x in params]",
		"out = []\nfor x in params:\n    f = lambda: x\n    out.append(f())\nreturn out",
	},
	"lost-update": {
		"total = [0]\ndef add(x):\n    n = len(call_tool(\"shop_orders\", {\"cursor\": x}))\n    total[0] += n\nparallel(add, [\"a\"])\nreturn total[0]",
		"total = [0]\nfor x in params:\n    total[0] += len(call_tool(\"shop_orders\", {\"cursor\": str(x)}))\nreturn total[0]",
		"def add(x):\n    total = [0]\n    total[0] += len(call_tool(\"shop_orders\", {\"cursor\": x}))\n    return total[0]\nreturn parallel(add, [\"a\"])",
	},
	"retry-twice": {
		"return retry(lambda: call_tool(\"shop_get_order\", {\"id\": \"1\"}))",
		"order = retry(lambda: call_tool(\"shop_get_order\", {\"id\": \"1\"}))\nreturn call_tool(\"shop_refund\", {\"order\": order[\"id\"], \"cents\": 5})",
		"return retry(lambda: call_tool(\"shop_refund\", {\"order\": \"A1\", \"cents\": 5}), max_attempts = 1)",
	},
	"annotation": {
		"tool(name = \"abc\", description = \"A.\", annotations = {\"readOnlyHint\": True})\n\ndef run(params):\n    return call_tool(\"shop_orders\")",
		"tool(name = \"abc\", description = \"A.\", annotations = {\"readOnlyHint\": False})\n\ndef run(params):\n    return call_tool(\"shop_refund\", {\"order\": \"A1\", \"cents\": 5})",
		"tool(name = \"abc\", description = \"A.\", annotations = {\"title\": \"shop_refund\", \"readOnlyHint\": True})\n\ndef run(params):\n    return \"shop_refund\"",
	},
	"unused": {
		"_total = len(params)\nfor _ in range(2):\n    log(\"x\")\nreturn 1",
		"a, _b = (1, 2)\nreturn a",
		"total = 0\ndef count():\n    return total\nreturn count()",
	},
	"unused-parameter": {
		"def f(a, _b):\n    return a\n\ndef run(params):\n    return f(params, 2)",
		"def f(a, b):\n    return lambda: a + b\n\ndef run(params):\n    return f(1, 2)()",
		"def by_name(name, args):\n    return name\n\ndef by_args(name, args):\n    return args\n\ndef run(params):\n    return [f(\"a\", {}) for f in [by_name, by_args]]",
	},
	"discarded": {
		"names = list(params)\nnames.append(\"x\")\nd = {}\nd.setdefault(\"a\", []).append(1)\nd.pop(\"a\")\nreturn names",
		"[log(str(x)) for x in params]\nreturn 1",
		"params and log(\"x\")\nint(params.get(\"n\", \"1\"))\nreturn 1",
	},
	"tool-contract": {
		"-- a\ntool(name = \"a\", description = \"A.\", parameters = {\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\", \"default\": 1}}, \"required\": [\"n\"], \"additionalProperties\": False}, output = {\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}}, \"required\": [\"n\"]})\n\ndef run(params):\n    return params\n-- b\ndef run(params):\n    return call_tool(\"a\")[\"n\"] + call_tool(\"a\", {\"n\": 2})[\"n\"]",
		"-- a\ntool(name = \"a\", description = \"A.\")\n\ndef run(params):\n    return params\n-- b\ndef run(params):\n    return call_tool(\"a\", {\"any\": [1]})[\"thing\"]",
		"-- a\ntool(name = \"a\", description = \"A.\", output = {\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}}})\n\ndef run(params):\n    return {\"n\": 1}\n-- b\ndef run(params):\n    return call_tool(\"a\").get(\"n\", 0) + 1",
	},
	"suppression-unused": {
		"return 1 + \"a\" # vmcp: ok(operand) on purpose",
		"# vmcp: ok(operand, index)\nreturn [1 + \"a\", 5[0]]",
		"return \"# vmcp: ok(operand)\" # vmcp is ok (operand)",
	},
}

// elsewhere has the near misses of codes that need a configuration: in this file, each begins with its code.
const elsewhere = "../../cmd/vmcp/internal/author/drift_near_test.go"

var elsewhereCodes = map[string]bool{"tool-duplicate": true, "drift": true, "lock-incomplete": true}

// TestNearMissesAreSilent: every code has at least three texts that look like its mistake but are correct.
func TestNearMissesAreSilent(t *testing.T) {
	other, err := os.ReadFile(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range codes.Table {
		n := len(nearMisses[c.Name])
		if elsewhereCodes[c.Name] {
			n = strings.Count(string(other), "\t{\""+c.Name+"\", ")
		}
		if n < 3 {
			t.Errorf("%s has %d near misses, want at least 3", c.Name, n)
		}
		for _, text := range nearMisses[c.Name] {
			if got := checkFiles(nearFiles(text)); got != "" {
				t.Errorf("near %s:\n%s\n got %s", c.Name, text, got)
			}
		}
	}
}

// nearFiles are the files of a near miss, by the name of the tool.
func nearFiles(text string) map[string]string {
	files := map[string]string{}
	if !strings.HasPrefix(text, "-- ") {
		text = "-- abc\n" + text
	}
	for _, part := range strings.Split("\n"+text, "\n-- ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		if !strings.Contains(body, "def run(") {
			body = "def run(params):\n    " + strings.ReplaceAll(body, "\n", "\n    ")
		}
		files[name] = body + "\n"
	}
	return files
}

// checkFiles checks files that are tools of the same configuration.
func checkFiles(files map[string]string) string {
	tools := map[string]check.Tool{}
	for name, tool := range shop {
		tools[name] = tool
	}
	var sources []check.Source
	var lines []string
	for name, text := range files {
		src := check.Source{File: script.File{Name: name + ".star", Source: []byte(text)}, Tools: []check.Entry{{}}}
		declared, problems := check.ReadDeclarations(src.File, script.Limits{})
		if len(declared) > 0 {
			src.Tools[0] = declared[0].Tool()
		}
		src.Tools[0].Tool = name
		for _, p := range problems {
			lines = append(lines, p.Error())
		}
		tools[name] = check.Tool{Input: src.Tools[0].Input, Output: src.Tools[0].Output, Script: true}
		sources = append(sources, src)
	}
	o := corpusOptions(tools)
	o.Builtins, o.Load = builtins.Table(), script.Library{Dirs: []string{corpus + "/lib"}}.Load
	for _, p := range check.Check(sources, o).Problems() {
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}
