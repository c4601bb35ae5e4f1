package builtins

import "github.com/vmcp-dev/vmcp/script/check"

// text that belongs to a row of the table: what its help has no room for, and an example.
type notes struct {
	details string
	example check.Example
}

var documentation = map[string]notes{
	"call_tool": {`
Any tool of the catalog can be called, hidden ones too, by the name that clients see or as
` + "`backend.tool`" + `. The output is the tool's structured content as a value; a tool that has
none gives ` + "`{\"text\": ..., \"content\": [...]}`" + `. A tool that reports a failure, cannot be reached
or does not answer in time ends the script with an error that names the tool and quotes it;
use ` + "`try_call_tool`" + ` or ` + "`retry`" + ` to go on. ` + "`timeout`" + ` can shorten the limit of one call,
not extend it.

When the connection or the process is lost in the middle of a call, whether it happened is not known. A call that may be
repeated is made again when the run goes on; with any other the run waits in doubt until somebody has found out.`, `
call_tool("echo", {"service": "web"})  # → {"service": "web"}
call_tool("echo", args={"n": 1}, timeout="10s")["n"]  # → 1
call_tool("greet")["text"]  # → "hello"
`},
	"try_call_tool": {`
` + "`kind`" + ` is None when the call went well, and else one of

| kind | |
|---|---|
| ` + "`invalid_input`" + ` | the arguments do not fit the tool's schema: it was not called |
| ` + "`invalid_output`" + ` | the result does not fit the tool's schema, or cannot be read |
| ` + "`tool`" + ` | the tool reported a failure (` + "`isError`" + `) |
| ` + "`timeout`" + ` | no answer in time |
| ` + "`unavailable`" + ` | the backend could not be reached: the tool was surely not called |
| ` + "`unknown`" + ` | the connection or the process was lost in the middle of the call: it may have happened |
| ` + "`denied`" + ` | the caller may not call the tool |
| ` + "`not_found`" + ` | there is no such tool |

A script cannot catch its own limits, its cancellation or its suspension.`, `
r = try_call_tool("refuse")
(r.ok, r.kind, r.error)  # → (False, "tool", "the door is closed")

r = try_call_tool("echo", {"n": 1})
r.output["n"] if r.ok else None  # → 1
`},
	"retry": {`
The function is called again when it ends with an error, or returns a value with
` + "`ok == False`" + `, such as that of ` + "`try_call_tool`" + `. What cannot get better is not tried again:
` + "`invalid_input`" + `, ` + "`denied`" + ` and ` + "`not_found`" + `. Nor is what may have happened and may not be repeated: an attempt
with a call whose outcome is ` + "`unknown`" + ` is the last one, whatever the function made of it, unless the tool is read-only or
idempotent. The delay grows by the factor ` + "`backoff`" + ` up to
` + "`max_delay`" + ` and is varied by ` + "`jitter`" + `, a part of it. After the last attempt the error says how
often it was tried; a returned value is returned.`, `
retry(lambda: call_tool("flaky", {"failures": 2}))  # → 3

r = retry(lambda: try_call_tool("down"), max_attempts=2, delay="100ms")
r.error  # → "connection refused"
`},
	"caller": {`
A dict; a token is not part of it. ` + "`groups`" + ` and ` + "`scopes`" + ` are lists, and ` + "`client`" + ` is the OAuth client that the
token was given to. Without authentication the subject is ` + "`anonymous`" + ` and all else is empty. A run that was
suspended goes on with the answer.`, `
caller()["subject"]  # → "anonymous"
"ops" in caller()["groups"]  # → False
`},
	"parallel": {`
Either a list of functions without parameters, or one function and the items to call it
with. Calls of tools, questions and sleeping overlap; the functions themselves take turns,
so they may share and change values. At most ` + "`max_concurrency`" + ` go on at a time. The first
error ends the others and is returned with its place in the list, ` + "`parallel[1]: ...`" + `. It can
be used inside of itself.

A lambda made in a loop sees the last value of the loop's variable: use the second form, or
bind it, ` + "`lambda x=x: ...`" + `.`, `
parallel([lambda: call_tool("greet")["text"], lambda: 2])  # → ["hello", 2]

def double(n):
    return call_tool("echo", {"n": 2 * n})["n"]

parallel(double, [1, 2, 3], max_concurrency=2)  # → [2, 4, 6]
`},
	"pages": {`
` + "`next`" + ` says where a page has the cursor of the next one, ` + "`items`" + ` where it has its elements; both
may lead through objects, as in ` + "`\"page.next\"`" + `. With ` + "`items=None`" + ` the pages themselves come.
` + "`cursor`" + ` is the argument that takes the cursor. It ends at a page whose cursor is missing,
None or empty. Only what is consumed is fetched, and only one page is held.

What a script reads is charged to its memory, kept or not. With ` + "`each=fn`" + ` a script goes through any amount:
` + "`fn`" + ` is called with the elements of a page, and what it returns comes in their place, one value for each page;
only that is charged, and goes into the journal. For this ` + "`fn`" + ` runs apart: it is a function of the
top level of the file, may only compute, and what it changes outside of itself is lost.`, `
[n for n in pages("numbers", {"n": 5})]  # → [0, 1, 2, 3, 4]

for n in pages("numbers", {"n": 1000000}):
    if n == 3:
        break
n  # → 3
`},
	"elicit": {`
The schema is an object whose properties are texts, numbers, booleans or choices, for that
is what clients can show; a literal schema is checked before anything runs. ` + "`action`" + ` is
` + "`\"accept\"`" + `, ` + "`\"decline\"`" + ` or ` + "`\"cancel\"`" + `; ` + "`content`" + ` is None unless it is ` + "`\"accept\"`" + `.
Content that does not fit the schema is asked for again, with the reason, three times in
all; ` + "`validate=False`" + ` takes it as it is.

` + "`timeout`" + ` can shorten the limit for a question, not extend it. It counts from when the question was first asked, also
where the run stops meanwhile.

A client that cannot be asked ends the script, or counts as ` + "`when_unavailable`" + `:
` + "`\"decline\"`" + ` or ` + "`\"cancel\"`" + `. Some clients are asked between two requests: the script stops there
and goes on with the answer, and nothing that it has done is done again.`, `
# reply stands in for the user here
call_tool("reply", {"action": "accept", "content": {"env": "test"}})

answer = elicit("Where to?", {
    "type": "object",
    "properties": {"env": {"type": "string", "enum": ["test", "live"]}},
    "required": ["env"],
})
(answer.action, answer.content["env"])  # → ("accept", "test")

elicit("Sure?", when_unavailable="decline").action  # → "decline"
`},
	"log": {`
` + "`level`" + ` is one of debug, info, notice, warning, error, critical, alert, emergency. Other
arguments are fields of the entry. A message that is no text is written as JSON.`, `
log("deployed", service="web", seconds=12)
log({"left": 3}, level="warning")
`},
	"progress": {"", `
for i in range(3):
    progress(i + 1, total=3, message="step " + str(i + 1))
`},
	"result": {`
What ` + "`run`" + ` returns becomes the structured content of the tool's result, and its JSON the
text. ` + "`result`" + ` gives other content: a list of blocks as MCP has them, where a text stands for a
text block. ` + "`is_error`" + ` reports a failure to the client without a backtrace.`, `
type(result(content=["done", {"type": "image", "data": "aGk=", "mimeType": "image/png"}], structured={"ok": True}))  # → "result"
`},
	"sleep": {`
When it ends is decided when it begins, and does not move: a run that is stopped meanwhile sleeps for what is left. Where runs
are kept, a long sleep stops the run, which goes on by itself.`, `
sleep("100ms")
sleep(0.1)
`},
	"struct": {"", `
p = struct(x=1, y=2)
p.x + p.y  # → 3
`},
	"text": {"Whole numbers are written without a fraction.", `
text("web")  # → "web"
text(True) + " " + text(2.0) + " " + text([1, None])  # → 'true 2 [1,null]'
text({}.get("missing"), "nothing")  # → "nothing"
`},
	"printf": {`
A number suits the verbs of integers as well as those of fractions; ` + "`%s`" + ` and ` + "`%v`" + ` write what
` + "`text`" + ` does.`, `
printf("%.1f%% of %-5s|", 99.95, "web")  # → "100.0% of web  |"
printf("%03d %v", 7.0, None)  # → "007 "
`},
	"html_escape": {"", `
html_escape("<b> & co")  # → "&lt;b&gt; &amp; co"
`},
	"js_escape": {"", `
js_escape("it's")  # → "it\\'s"
`},
	"url_query": {"", `
"?q=" + url_query("a b&c")  # → "?q=a+b%26c"
`},
	"without_none": {"", `
params = {"name": "web"}
without_none({"name": params["name"], "tag": params.get("tag")})  # → {"name": "web"}
`},
	"tool": {`
The arguments have to be literals or constants of the file. Annotations that look safer than the
tools that the script can call hold only with trust_annotations. A file may declare several tools; ` + "`entry`" + ` is the name of
the function that a call of this one runs.`, `
tool(
    name = "deploy",
    description = "Deploys a service",
    parameters = {
        "type": "object",
        "properties": {"service": {"type": "string"}},
        "required": ["service"],
    },
    timeout = "5m",
)
`},
	"json": {`
- ` + "`json.encode(x)`" + ` makes a text. Dicts keep their order, integers every digit.
- ` + "`json.decode(text, default=...)`" + ` makes a value; with a default it never fails.
- ` + "`json.indent(text, indent=\"  \")`" + ` lays a text out for people.`, `
json.encode({"b": [1, 2.5], "a": None})  # → '{"b":[1,2.5],"a":null}'
json.decode('{"n": 10000000000000000000000}')["n"] + 1  # → 10000000000000000000001
json.decode("{", default=None)  # → None
json.indent("[1]")  # → "[\n  1\n]"
`},
	"math": {`
` + "`ceil`" + `, ` + "`floor`" + `, ` + "`round`" + `, ` + "`fabs`" + `, ` + "`sqrt`" + `, ` + "`mod`" + `, ` + "`remainder`" + `, ` + "`copysign`" + `, and the constants
` + "`pi`" + ` and ` + "`e`" + `. Logarithms, powers and trigonometry are left out: their last digits differ
between machines, and a script has to run the same way everywhere.`, `
math.ceil(1.2)  # → 2
math.sqrt(16)  # → 4.0
math.mod(7, 4)  # → 3.0
`},
	"re": {`
- ` + "`re.search(pattern, text)`" + ` is the first match or None, ` + "`re.match`" + ` one at the start of the text.
  A match has ` + "`text`" + `, ` + "`start`" + `, ` + "`end`" + `, ` + "`groups`" + ` and ` + "`named`" + `.
- ` + "`re.findall(pattern, text)`" + ` is the list of all: the text, of the group if there is one, or
  tuples of groups.
- ` + "`re.sub(pattern, replacement, text, max=-1)`" + ` replaces: with a text, in which ` + "`\\1`" + ` and
  ` + "`\\g<name>`" + ` stand for groups, or with what a function makes of the match.
- ` + "`re.split(pattern, text, max=-1)`" + ` splits.

Patterns have no backreferences and no lookaround. What a pattern costs is taken from the
steps of the run: the text that is read times the size of the pattern. A run compiles a pattern
once, and keeps the first 64.`, `
re.search(r"(\w+)=(\d+)", "x, n=12").groups  # → ("n", "12")
re.findall(r"\d+", "1 and 22")  # → ["1", "22"]
re.sub(r"(\w+)@(\w+)", r"\2 at \1", "me@home")  # → "home at me"
re.split(r",\s*", "a, b,c")  # → ["a", "b", "c"]
`},
	"time": {`
- ` + "`time.now()`" + ` reads the clock. A run that is resumed reads what it read before.
- ` + "`time.parse(text, format=RFC 3339)`" + `, ` + "`time.from_timestamp(seconds, nanoseconds=0)`" + ` make times,
  ` + "`time.duration(\"1h30m\")`" + ` a duration; ` + "`time.second`" + `, ` + "`time.minute`" + `, ` + "`time.hour`" + ` are durations.
- A time has ` + "`year`" + `, ` + "`month`" + `, ` + "`day`" + `, ` + "`hour`" + `, ` + "`minute`" + `, ` + "`second`" + `, ` + "`nanosecond`" + `, ` + "`weekday`" + `,
  ` + "`unix`" + `, ` + "`unix_nano`" + ` and ` + "`format(layout)`" + `. Layouts are written as in Go: ` + "`2006-01-02 15:04:05`" + `.
- Times and durations can be added, subtracted and compared. All times are UTC.`, `
t = time.parse("2026-03-01T12:00:00+01:00")
str(t)  # → "2026-03-01T11:00:00Z"
(t + 36 * time.hour).format("2006-01-02")  # → "2026-03-02"
(t - time.parse("2026-03-01T10:30:00Z")) == time.duration("30m")  # → True
time.now() + time.hour > time.now()  # → True
`},
}
