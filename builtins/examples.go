package builtins

import "github.com/vmcp-dev/vmcp/script/check"

// notes are the details and the example of a row of the table.
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
use ` + "`try_call_tool`" + ` or ` + "`retry`" + ` to handle it. ` + "`timeout`" + ` can shorten the limit of one call,
not extend it; of a scripted tool it bounds the time in which that is awake, as ` + "`limits.time`" + ` does: sleeps and waiting for people do not count.

Where the tool's input schema wants exactly a text, a number or a boolean, arguments are converted if nothing is lost by it,
at every level: 42 and True to ` + "`\"42\"`" + ` and ` + "`\"true\"`" + `, and ` + "`\"42\"`" + ` to 42, but not ` + "`\"007\"`" + `, ` + "`\"1e3\"`" + ` or
` + "`\"True\"`" + `. Places with ` + "`anyOf`" + ` or ` + "`oneOf`" + ` are left as they are, and the trace says what was converted.

If the connection or the process is lost during a call, it is not known whether the call happened. If it may be
repeated, it is made again when the run is resumed; otherwise the run waits, in doubt, until somebody resolves it.`, `
call_tool("echo", {"service": "web"})  # → {"service": "web"}
call_tool("echo", args={"n": 1}, timeout="10s")["n"]  # → 1
call_tool("greet")["text"]  # → "hello"
`},
	"try_call_tool": {`
` + "`kind`" + ` is None when the call succeeded, and otherwise one of

| kind | |
|---|---|
| ` + "`invalid_input`" + ` | the arguments do not fit the tool's schema: it was not called |
| ` + "`invalid_output`" + ` | the result does not fit the tool's schema, or cannot be read |
| ` + "`tool`" + ` | the tool reported a failure (` + "`isError`" + `) |
| ` + "`timeout`" + ` | no answer in time, of a tool that may be called again |
| ` + "`unavailable`" + ` | the backend could not be reached: the tool was certainly not called |
| ` + "`unknown`" + ` | the answer was lost, or did not come in time: the call may have happened |
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
` + "`ok == False`" + `, such as that of ` + "`try_call_tool`" + `. Failures that a retry cannot mend are not retried:
` + "`invalid_input`" + `, ` + "`denied`" + ` and ` + "`not_found`" + `. Nor are calls that may have happened and may not be repeated: an attempt
with a call whose outcome is ` + "`unknown`" + ` is the last one, whatever the function returns, unless the tool is read-only or
idempotent. The delay grows by the factor ` + "`backoff`" + ` up to
` + "`max_delay`" + ` and is varied randomly by the fraction ` + "`jitter`" + `. After the last attempt the error has the number of
attempts; a returned value is returned unchanged.`, `
retry(lambda: call_tool("flaky", {"failures": 2}))  # → 3

r = retry(lambda: try_call_tool("down"), max_attempts=2, delay="100ms")
r.error  # → "connection refused"
`},
	"caller": {`
A dict; a token is not part of it. ` + "`groups`" + ` and ` + "`scopes`" + ` are lists, and ` + "`client`" + ` is the OAuth client that the
token was issued to. Without authentication the subject is ` + "`anonymous`" + ` and all else is empty. A resumed run gets
the same answer.`, `
caller()["subject"]  # → "anonymous"
"ops" in caller()["groups"]  # → False
`},
	"parallel": {`
Either a list of functions without parameters, or one function and the items to call it
with. Calls of tools, questions and sleeping overlap; the functions themselves never compute at the same time,
so they may share and change values. At most ` + "`max_concurrency`" + ` are started at a time. The first
error cancels the others and is returned with its index in the list, ` + "`parallel[1]: ...`" + `. Calls of
` + "`parallel`" + ` can be nested.

A lambda made in a loop sees the last value of the loop's variable: use the second form, or
bind it, ` + "`lambda x=x: ...`" + `.`, `
parallel([lambda: call_tool("greet")["text"], lambda: 2])  # → ["hello", 2]

def double(n):
    return call_tool("echo", {"n": 2 * n})["n"]

parallel(double, [1, 2, 3], max_concurrency=2)  # → [2, 4, 6]
`},
	"pages": {`
` + "`next`" + ` is the field of a page with the cursor of the next one, ` + "`items`" + ` the field with its elements; both
may be paths into objects, such as ` + "`\"page.next\"`" + `. With ` + "`items=None`" + ` the elements are the pages themselves.
` + "`cursor`" + ` is the argument of the tool for the cursor. The last page is the one whose cursor is missing,
None or empty. Pages are fetched when they are needed, and only one page is kept.

Everything that a script reads is charged to its memory, kept or not. With ` + "`each=fn`" + ` a script can process any amount:
` + "`fn`" + ` is called with the elements of each page, and the loop gets its result instead, one value for each page;
only that is charged and recorded in the journal. ` + "`fn`" + ` is executed in a separate run: it has to be a function at the
top level of the file, may only compute, and its changes to global values are lost.`, `
[n for n in pages("numbers", {"n": 5})]  # → [0, 1, 2, 3, 4]

for n in pages("numbers", {"n": 1000000}):
    if n == 3:
        break
n  # → 3
`},
	"elicit": {`
The schema is an object whose properties are strings, numbers, booleans or choices, which
clients can show; a literal schema is checked before the script runs. ` + "`action`" + ` is
` + "`\"accept\"`" + `, ` + "`\"decline\"`" + ` or ` + "`\"cancel\"`" + `; ` + "`content`" + ` is None unless it is ` + "`\"accept\"`" + `.
If the content does not fit the schema, the question is asked again with the reason, three times in
all; with ` + "`validate=False`" + ` any content is accepted.

` + "`timeout`" + ` can shorten the limit for a question, not extend it. It begins when the question is first asked, and continues
while the run is suspended.

If the client cannot be asked, the script ends with an error, or the answer is ` + "`when_unavailable`" + `:
` + "`\"decline\"`" + ` or ` + "`\"cancel\"`" + `. Some clients are asked between two requests: the run is suspended
and resumed with the answer, without repeating what it has done.`, `
# reply is the user here
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
arguments are fields of the entry. A message that is not a string is written as JSON.`, `
log("deployed", service="web", seconds=12)
log({"left": 3}, level="warning")
`},
	"progress": {"", `
for i in range(3):
    progress(i + 1, total=3, message="step " + str(i + 1))
`},
	"result": {`
The value that ` + "`run`" + ` returns becomes the structured content of the tool's result, and its JSON the
text content. ` + "`result`" + ` returns other content: a list of content blocks of MCP, where a string is short for a
text block. ` + "`is_error`" + ` reports a failure to the client without a backtrace.`, `
type(result(content=["done", {"type": "image", "data": "aGk=", "mimeType": "image/png"}], structured={"ok": True}))  # → "result"
`},
	"sleep": {`
The end is determined when the sleep begins: a run that is suspended meanwhile sleeps for the rest. Where runs
are kept, a long sleep suspends the run, and the server resumes it.`, `
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
The verbs of integers and of floats accept any number; ` + "`%s`" + ` and ` + "`%v`" + ` format values as
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
tools that the script can call are used only with trust_annotations. A file may declare several tools; ` + "`entry`" + ` is the name of
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
- ` + "`json.encode(x)`" + ` returns JSON. Dicts keep their order, integers all digits.
- ` + "`json.decode(text, default=...)`" + ` returns a value; with a default it never fails.
- ` + "`json.indent(text, indent=\"  \")`" + ` formats JSON for people.`, `
json.encode({"b": [1, 2.5], "a": None})  # → '{"b":[1,2.5],"a":null}'
json.decode('{"n": 10000000000000000000000}')["n"] + 1  # → 10000000000000000000001
json.decode("{", default=None)  # → None
json.indent("[1]")  # → "[\n  1\n]"
`},
	"math": {`
` + "`ceil`" + `, ` + "`floor`" + `, ` + "`round`" + `, ` + "`fabs`" + `, ` + "`sqrt`" + `, ` + "`mod`" + `, ` + "`remainder`" + `, ` + "`copysign`" + `, and the constants
` + "`pi`" + ` and ` + "`e`" + `. Logarithms, powers and trigonometry are not available: their last digits differ
between machines, and a script has to give the same results everywhere.`, `
math.ceil(1.2)  # → 2
math.sqrt(16)  # → 4.0
math.mod(7, 4)  # → 3.0
`},
	"re": {`
- ` + "`re.search(pattern, text)`" + ` is the first match or None, ` + "`re.match`" + ` one at the start of the text.
  A match has ` + "`text`" + `, ` + "`start`" + `, ` + "`end`" + `, ` + "`groups`" + ` and ` + "`named`" + `.
- ` + "`re.findall(pattern, text)`" + ` is the list of all matches: their texts, or those of the group if the pattern has one, or
  tuples of groups.
- ` + "`re.sub(pattern, replacement, text, max=-1)`" + ` replaces matches by a string, in which ` + "`\\1`" + ` and
  ` + "`\\g<name>`" + ` stand for groups, or by the result of a function of the match.
- ` + "`re.split(pattern, text, max=-1)`" + ` splits.

Patterns have no backreferences and no lookaround. Matching uses steps of the run: the length of the
text times the size of the pattern. A run compiles a pattern once, and keeps the first 64.`, `
re.search(r"(\w+)=(\d+)", "x, n=12").groups  # → ("n", "12")
re.findall(r"\d+", "1 and 22")  # → ["1", "22"]
re.sub(r"(\w+)@(\w+)", r"\2 at \1", "me@home")  # → "home at me"
re.split(r",\s*", "a, b,c")  # → ["a", "b", "c"]
`},
	"time": {`
- ` + "`time.now()`" + ` reads the clock. A resumed run gets the same times as before.
- ` + "`time.parse(text, format=RFC 3339)`" + `, ` + "`time.from_timestamp(seconds, nanoseconds=0)`" + ` return times,
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
