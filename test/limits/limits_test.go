// Package limits compares docs/limits.md, the table of what a peer can make the endpoint hold, with the
// code: every bound in it is read from a constant or a default of the configuration, every
// setting and test that it names exists, and no such constant is missing.
package limits

import (
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
)

var update = flag.Bool("update", false, "rewrite the table in docs/limits.md")

// row is one resource that is held for a peer. In braces: size, number, time or setting, and
// the constant or the field with its value.
type row struct{ what, bound, beyond, setting, test string }

var table = []row{
	{"client sessions over HTTP", "{setting clientSessions.max}; {setting clientSessions.perPrincipal} of a principal; {setting clientSessions.perAddress} of an address behind `trustedProxies`",
		"never used ones end, then the one idle longest, for at least `sessionIdle.pressure` ({setting sessionIdle.pressure}); else 503 with Retry-After", "`clientSessions`", "TestSessionsAreBounded"},
	{"a session of which only an initialize came", "{time edge.unusedTime}; {time edge.evictUnused} where there is no room", "ends", "–", "TestSessionsAreBounded"},
	{"capabilities and client info", "{size edge.maxIntroduction} each", "-32602", "–", "TestIntroductionIsBounded"},
	{"what a backend offers to one session only", "{size conn.maxOwn}, {size conn.maxAllOwn} for all", "not shown, and logged", "–", "TestPrivateListsAreBounded"},
	{"a list of a backend", "{number conn.maxPages} pages, {number conn.maxItems} entries, {size conn.maxBytes}", "cut off, and logged", "–", "TestEndlessListsAreCutOff"},
	{"catalogs with what sessions have of their own", "{number proxy.overlayMost}, shared by sessions that have the same", "the oldest is made anew when it is asked for", "–", "TestCatalogsAreBounded"},
	{"connections to one backend", "{number backends.defaultMaxConnections}; its `maxConnections`", "an idle stream closes, else the client session idle longest ends, for at least `sessionIdle.pressure`; else the call is refused", "–", "TestManyClientsTakeTurns"},
	{"sessions with one backend", "{number backends.defaultMaxSessions}; its `maxSessions`", "the client session idle longest ends, for at least `sessionIdle.pressure`; else the call is refused", "–", "TestFullBackendEndsTheLongestUnusedClientOrRefuses"},
	{"runs that wait to begin", "{number runs.maxWaiting}, {size runs.maxWaitingBytes} of arguments, {time runs.admitWithin}", "503 with -32000", "`limits`", "TestWaitingForAdmissionIsBounded"},
	{"worker processes of isolated scripts", "{number script.MostWorkers}, one for each run that computes, and {number isolate.mostSpare} spare ones; {size isolate.maxStderr} of the standard error of each, {size isolate.maxHandshake} of its first message", "runs wait for one; those that wait for something else give theirs up", "`limits.runs`", "TestAThousandThatWait"},
	{"large answers that scripts read", "an eighth of `limits.totalMemory`, {size script.leastReading} at least; of a request a quarter of `limits.memory`", "the call waits, reading nothing, as long as it may take", "–", "TestRoomForAnswers"},
	{"the journal of a run, in memory", "{number sqlstore.entriesInMemory} effects, {size sqlstore.bytesInMemory}, charged to the run", "the run fails", "`runs.maxEntries`", "TestJournalsInMemoryAreBounded"},
	{"runs in memory that wait or have ended", "an eighth of `limits.totalMemory`, {size script.leastReading} at least; half of that for a principal; {number durable.maxEnded} that have ended; {number durable.maxQueued} of their events that were not sent yet", "those that have ended are forgotten; then runs that wait are given up, of the principal that holds most", "`limits.totalMemory`", "TestRoomForRuns"},
	{"journals of runs that ended in the last {time sqlstore.recentFor}, which PostgreSQL may lose yet", "{number sqlstore.maxRecent}, {size sqlstore.maxRecentBytes}", "the oldest are dropped: their ends are not written again", "–", "TestRecentEndsAreBounded"},
	{"resources that a client follows", "{number subscriptions.maxFollowed}, {size subscriptions.maxFollowedBytes} of URIs", "-32602; a `subscriptions/listen` honours the first ones", "–", "TestFollowedResourcesAreBounded"},
	{"streams of `subscriptions/listen`", "{number subscriptions.maxListeners}", "-32000", "–", "TestListenersAreBounded"},
	{"a request's body", "{setting maxRequestBody}, in a buffer that grows with what came", "413", "`maxRequestBody`", "TestLargeBodiesAreBounded"},
	{"bodies over {size edge.keptSize} together", "{size edge.most}", "503 with Retry-After", "–", "TestLargeBodiesAreBounded"},
	{"a body that is on its way", "{time edge.bodyTime} without a byte; {size edge.bodyRate} a second after as long", "408", "–", "TestUnfinishedBodiesEnd"},
	{"a batch", "{number edge.maxBatch} messages, {size edge.MaxFrame} of answers", "400; -32603 in the place of an answer", "–", "TestBatchesAreBounded"},
	{"an answer that is not read", "{size edge.writePiece} in {time edge.slowReader}", "the connection ends, and the call with it", "–", "TestUnreadWritesEnd"},
	{"an event stream, not taken yet", "{size edge.streamBytes}; {size edge.tightBytes} while all hold {size edge.streamsTotal}", "the backend waits; after {time edge.slowReader} without a reader the call is cancelled", "–", "TestWritersWaitForTheReader"},
	{"an event stream, sent already", "{size edge.replaySession} of a session, {size edge.replayTotal} in all; {size edge.streamBytes} beside the event that is under way", "ended ones that nobody came back for go, after {time edge.deliveredFor}; who resumes behind what is gone gets an error for that request", "–", "TestAbandonedStreamsMakeRoom"},
	{"ended streams of a session", "{number edge.keptStreams}; {time edge.deliveredFor} once delivered, else {time edge.undeliveredFor}", "the oldest go", "–", "TestWhatWasDeliveredGoes"},
	{"notifications that belong to no call", "as an event stream", "the oldest are dropped and counted", "–", "TestOfferKeepsWhatIsNewest"},
	{"questions to a client", "{number edge.maxAsked} open, {size edge.maxAskedBytes}; rounds of one call: {number runs.MaxRounds}", "the backend gets an error", "–", "TestQuestionsAreBounded"},
	{"questions of a backend", "{number conn.maxQuestions} of one client's connection, or of one call where clients share it, {size conn.maxQuestionBytes}; {number conn.maxSharedQuestions} of a shared connection; until the response is sent or waits to be", "the backend gets an error", "–", "TestQuestionsOfABackendAreBounded"},
	{"responses to a backend's requests", "{number conn.maxReplies} that wait; {number conn.maxSending} being sent over HTTP, one over stdio, {time conn.replyTimeout} each", "nothing is read from the backend; after {time conn.fullTime} the connection ends, and the calls on it", "–", "TestRepliesAreBounded"},
	{"questions of backends in one run", "{number runs.maxQuestions}, {size runs.maxQuestionBytes} with their answers; rounds of one call: {number runs.MaxRounds}", "the call fails, or the backend gets an error", "–", "TestQuestionsOfARunAreBounded"},
	{"suspended calls", "{number runs.maxCalls}, {size runs.SuspendedMaxBytes} of bodies and questions; of a principal {number runs.maxOfOne}, {size runs.maxBytesOfOne}; {setting limits.elicitTimeout}", "-32603", "`limits.elicitTimeout`", "TestSuspendedCallsAreBounded"},
	{"runs in memory whose client was told to come back", "{number runs.maxAway}; {setting runs.answerWithin}", "they are cancelled; more are kept until there is no room", "`runs.answerWithin`", "TestAClientThatStaysAway"},
	{"interrupted runs with which calls are compared", "{number runs.maxOrphans}; {setting runs.joinFor}", "calls are not compared with more", "`runs.joinFor`", "TestForsakenRuns"},
	{"notifications for a suspended call", "{number runs.keptFrames}, {size runs.keptBytes}", "dropped and counted", "–", "TestSuspendedCallsAreBounded"},
	{"recordings of calls", "{number cases.maxEffects} effects and {size cases.maxRecorded} each, {size cases.maxHeld} in all; {number cases.maxQueue} wait to be written", "not recorded, and logged", "`recording`", "TestARecorderIsBounded"},
	{"sessions of other replicas that were adopted", "{number cluster.maxOwners}", "all are forgotten, and read again from the store", "–", "TestOwnersAreBounded"},
	{"sessions that ended while the shared store was away", "{number cluster.maxEnded}", "they may be begun anew from their ids", "–", "TestEndsThatAreNotNotedAreBounded"},
	{"connections to `cluster.listen` on which no replica has signed a request", "{number cluster.maxStrangers}, {size cluster.maxStrangerBytes} sent together, {size cluster.maxHeaders} of headers each", "the oldest closes, or who has sent most", "–", "TestStrangersAreBounded"},
	{"requests of other replicas, to refuse one that comes again", "{number cluster.peersRemembered} of each of {number cluster.senders}", "what is older is refused", "–", "TestReplaysAreKnownWithinBounds"},
	{"how another replica says that it is", "{size cluster.maxStatus}", "it counts as one that does not answer", "–", "TestAnswersOfReplicasAreBounded"},
	{"tasks that are remembered", "{number proxy.tasksMost}, ids of {size proxy.idBytes}", "the oldest are forgotten", "–", "TestTasksAreBounded"},
	{"a frame on standard input and output", "{size edge.MaxFrame}", "the connection ends", "–", "TestLongLineEndsStdio"},
	{"requests of the client of `serve --stdio --url`", "{number bridge.maxRunning} at once, {size bridge.maxHeld}, {size bridge.maxFrame} each", "-32000; a larger message ends the connection", "–", "TestRequestsAreBounded"},
	{"answers over {size bridge.smallFrame} to that client", "{number bridge.maxLarge} at once, {size bridge.maxFrame} each", "they wait for each other; a larger one is an error", "–", "TestAnswers"},
	{"tools of that endpoint whose arguments stand in headers, too", "{number bridge.maxSchemas} of {size bridge.maxSchemaBytes}", "the calls of the others are refused for their headers", "–", "TestSchemasAreBounded"},
	{"subscriptions of that client, for a session after the endpoint's restart", "{number bridge.maxKept} of {size bridge.maxKeptBytes}", "not made again", "–", "TestSubscriptionsAreKeptForALaterSession"},
	{"messages of a process for one caller", "{size conn.maxPrivateQueued} of a process of one client, {size conn.maxQueued} where clients share it, with what small ones take beside their text", "a process of one client waits; where clients share it, the call fails", "–", "TestFullQueueGivesTheCallUp"},
	{"an answer that can be fetched again", "{size conn.keptAnswer} are held back", "it streams", "–", "TestResultArrivesByteForByte"},
	{"a backend's log messages to nobody", "{number backends.messageBurst}, then {number backends.messageRate} a second, {size proxy.maxSaid} each", "left out and counted", "–", "TestLimiter"},
	{"a backend's stderr in the log, at level debug", "{number backends.stderrBurst} lines of {size child.maxLogLine}, then {number backends.stderrRate} a second", "left out and counted", "–", "TestLimiter"},
	{"lines about a backend, for `vmcp logs`", "{number backends.maxLines}, {size backends.maxBytes} of text, {size backends.maxText} each", "the oldest go; what is longer is cut", "–", "TestBounds"},
	{"shapes of the last results of tools, for `vmcp describe`", "{number status.maxTools} tools, {size status.maxShape} each: {number status.maxKeys} keys of an object, {number status.maxMembers} kinds of members of a list, {number status.maxDepth} levels; results of at most {size status.maxResult}", "all are forgotten; deeper levels are left out", "–", "TestShapesAreBounded"},
	{"requests that follow lines about backends", "{number operate.maxFollowers}", "503", "–", "TestFollowersAreBounded"},
	{"runs that the page for operators shows", "{number runs.maxRuns} that have ended, {size runs.historyMaxBytes} with those under way; {number runs.maxSteps} steps each, {size runs.maxValue} of arguments and of results", "the oldest go; of a run beyond it steps are counted, and not kept", "–", "TestMemoryIsBounded"},
	{"pages that watch what changes", "{number operate.maxListeners}", "503", "–", "TestManyListeners"},
	{"logins of operators", "{number edge.maxSessions}", "the one that was used least recently ends", "–", "TestLoginsAreBounded"},
	{"calls of operators from the page", "{number operate.maxCalls}, of {number operate.maxReads} the results are held, {size operate.maxResult} each", "503; of a larger result the call was made, and the answer says so", "–", "TestCallsOfOperatorsAreBounded"},
	{"what classes of principals see of a catalog", "{number catalog.maxViews} classes, {size catalog.maxKept} of pages", "the one unused longest is decided anew", "–", "TestViewsAreBounded"},
	{"principals as policies know them", "two generations of {number proxy.maxKnown}", "the older ones are made anew", "–", "TestKnownPrincipalsAreBounded"},
	{"what tokens of clients were found to be", "{number auth.maxVerdicts} tokens, by their hashes; {time auth.verdictLife}", "the one unused longest is looked at anew", "–", "TestVerdictsAreBounded"},
	{"tokens for principals, to one backend", "{number credentials.maxUsers} principals", "the one unused longest is exchanged anew", "–", "TestUsersAreBounded"},
	{"an answer of a token endpoint", "{size credentials.maxIssued}", "the call fails, as unavailable", "–", "TestTokenEndpointsThatMisbehave"},
	{"logins at backends in `tokenStore`", "{number credentials.maxGrants}, {size credentials.maxStore}", "no more are taken", "–", "TestStoredLoginsAreBounded"},
	{"logins that principals were asked for", "{number credentials.maxPending}, {number credentials.maxPendingOf} of one; {number credentials.maxAttempts} tries in {time credentials.loginTime}", "the call fails, and says why", "–", "TestPendingLoginsAreBounded"},
	{"fetched tokens that are hidden in what is written", "{number secret.maxAdded}, {size secret.maxAddedBytes} of patterns", "the oldest are not looked for any more", "–", "TestAddedSecretsAreBounded"},
	{"principals whose calls are counted", "{number policy.maxPrincipals}", "the one who called least recently is forgotten, and has full buckets again", "–", "TestPrincipalsAreForgotten"},
	{"lines of the audit that wait to be written", "{size audit.MaxQueued}", "dropped and counted; with `audit.mode: strict` the call is refused with 503", "–", "TestAReaderThatTakesNothing"},
	{"what a line of the audit repeats", "{setting audit.maxDataSize} bytes of request and of result, names of {size proxy.maxName}", "cut", "`audit.maxDataSize`", "TestDataInLines"},
	{"files of the audit", "{setting audit.rotate.size} each, {setting audit.rotate.keep} beside the one that is written", "the oldest is removed", "`audit.rotate`", "TestRotation"},
	{"lines about definitions that are not as they are pinned", "{number catalog.maxReports} a minute", "left out, and their number logged", "–", "TestPinReport"},
	{"a call that reports progress for ever", "{time conn.maxCallTime}", "it times out", "–", "TestClock"},
}

// others are constants that look like bounds of resources for a peer, and are none.
var others = map[string]string{
	"proxy.maxRounds": "of one call", "endpoint.maxPeek": "of the beginning of an answer", "edge.maxPadding": "of an answer that streams", "edge.maxInfo": "of an id", "edge.maxCapabilities": "of an id", "bridge.maxSilent": "of attempts", "bridge.maxPages": "of one list that is read, and not kept", "credentials.maxReading": "of questions to the store", "auth.maxTokenName": "of the configuration", "credentials.maxScopeName": "of what a server asks for", "runs.maxCallDepth": "of scripts", "catalog.maxInstructions": "of the configuration",
	"catalog.maxPrivateReports": "of a log that repeats itself", "catalog.maxDistinct": "of comparisons", "proxy.maxLine": "of a line of the log", "status.maxEffects": "of an answer", "status.maxText": "of an answer", "auth.maxToken": "of a header", "auth.maxBundle": "of the configuration", "auth.maxTokenFile": "of the configuration", "auth.maxDocument": "of the issuer that is configured", "catalog.maxPage": "of a page while it is edited", "backends.maxCapabilities": "what edge.maxIntroduction is", "catalog.maxLibraries": "of the configuration", "conn.maxMalformed": "of warnings", "backends.maxRetry": "a time that backends ask for",
	"cluster.keptIdle": "of intervals", "cluster.maxUnreached": "of what the log repeats", "cluster.maxPassage": "of a header", "observe.maxHeader": "of a header",
	"endpoint.MaxResumes": "of attempts", "endpoint.maxRetry": "a time that backends ask for",
	"cluster.maxStatus": "of an answer that is read for an operator, and not kept", "endpoint.maxRedirects": "of attempts", "endpoint.maxRest": "read and dropped", "conn.maxErrorBody": "read and dropped", "credentials.maxScopes": "of one login", "child.maxKept": "of stderr, for one message",
	"certs.maxCertificates": "of the configuration", "proxy.maxHead": "of a line while its result streams", "credentials.maxSecret": "of the configuration", "secret.maxEscaped": "of decoding", "proxy.maxResult": "of an answer that nobody reads",
	"runs.maxText": "of runs that are bounded", "runs.maxCurrent": "of runs that are bounded", "operate.maxLogin": "of a form that is read at once",
	"operate.maxFields": "of a page", "operate.maxShown": "of a page", "operate.maxLine": "of a page", "operate.maxContents": "of a page",
	"policy.maxKnown": "of answers that are computed again", "policy.maxStates": "of one comparison", "policy.maxTries": "of attempts", "policy.maxTexts": "of the configuration", "policy.maxDepth": "of arguments that are bounded", "policy.maxPolicies": "of the configuration",
	"cluster.maxTokens": "of rows in the database", "cluster.maxToken": "of a row in the database", "cluster.maxState": "of a row in the database", "cluster.maxLogin": "of a row in the database", "cluster.maxLocks": "of connections to the database",
	"catalog.maxReferences": "of a schema that is read, and not kept", "catalog.maxWork": "of a schema that is read, and not kept", "catalog.maxGroups": "of a schema that is read, and not kept", "catalog.maxNote": "of a message", "catalog.maxNotes": "of a message",
	"durable.maxResponse": "read and dropped", "durable.maxBackoff": "of intervals", "sqlstore.maxGroup": "of writes that are under way", "sqlstore.maxPrepared": "of statements that we write", "edge.maxParams": "of the headers of one request", "proxy.maxFile": "of a file that is named", "cases.maxProblems": "of a message",
	"memory.maxTold": "of runs that are bounded", "cases.maxFile": "of a file that is named", "cases.maxDifferences": "of a message", "cases.maxShown": "of a message", "cases.maxAlternatives": "of the schemas of one value",
}

// constants reads the constants of a package, by name.
func constants(t *testing.T, folder string) map[string]constant.Value {
	t.Helper()
	files, err := filepath.Glob("../../" + folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]constant.Value{}
	fset := token.NewFileSet()
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, s := range g.Specs {
					addConstants(found, s.(*ast.ValueSpec))
				}
			}
		}
	}
	return found
}

var units = strings.NewReplacer("time.Second", "1000000000", "time.Minute", "60000000000", "time.Hour", "3600000000000", "time.Millisecond", "1000000")

func addConstants(found map[string]constant.Value, s *ast.ValueSpec) {
	for i, name := range s.Names {
		if i >= len(s.Values) {
			return
		}
		text := units.Replace(types.ExprString(s.Values[i]))
		if v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text); err == nil && v.Value != nil {
			found[name.Name] = v.Value
		}
	}
}

// defaultOf is the default of a field of the configuration.
func defaultOf(path string) (string, bool) {
	of := reflect.TypeFor[config.Config]()
	value := ""
	for part := range strings.SplitSeq(path, ".") {
		found := false
		for _, field := range reflect.VisibleFields(of) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == part {
				of, value, found = field.Type, field.Tag.Get("default"), true
				break
			}
		}
		if !found {
			return "", false
		}
	}
	return value, true
}

func size(n int64) string {
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 20, "MB"}, {1 << 10, "kB"}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprintf("%d %s", n/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

func duration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

var placeholder = regexp.MustCompile(`\{(\w+) ([\w.]+)\}`)

// fill replaces names by values, and notes the names.
func fill(t *testing.T, text string, values map[string]constant.Value, used map[string]bool) string {
	return placeholder.ReplaceAllStringFunc(text, func(p string) string {
		m := placeholder.FindStringSubmatch(p)
		if m[1] == "setting" {
			v, ok := defaultOf(m[2])
			if !ok {
				t.Errorf("%s: the configuration has no such field", m[2])
			}
			return v
		}
		used[m[2]] = true
		v, ok := values[m[2]]
		if !ok {
			t.Errorf("there is no constant %s", m[2])
			return p
		}
		n, _ := constant.Int64Val(constant.ToInt(v))
		switch m[1] {
		case "size":
			return size(n)
		case "time":
			return duration(time.Duration(n))
		}
		return fmt.Sprint(n)
	})
}

// bounded are the packages that hold resources for a peer: these folders and all packages below
// them, so that a new package cannot be forgotten.
func bounded(t *testing.T) []string {
	t.Helper()
	folders := []string{"builtins/cases", "script", "script/durable", "script/durable/sqlstore", "internal/secret"}
	for _, root := range []string{"backends", "proxy"} {
		err := filepath.WalkDir("../../"+root, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || !d.IsDir():
				return err
			case d.Name() == "testdata", d.Name() == "backendtest", d.Name() == "authtest":
				return fs.SkipDir
			}
			folders = append(folders, strings.TrimPrefix(filepath.ToSlash(name), "../../"))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return folders
}

// tests are the names of all test functions.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, folder := range append(bounded(t), "test/relay", "test/outgoing") {
		paths, _ := filepath.Glob("../../" + folder + "/*_test.go")
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range name.FindAllSubmatch(text, -1) {
				found[string(m[1])] = true
			}
		}
	}
	return found
}

func TestTableOfWhatIsHeld(t *testing.T) {
	values, used, known := map[string]constant.Value{}, map[string]bool{}, tests(t)
	for _, folder := range bounded(t) {
		for name, v := range constants(t, folder) {
			values[path.Base(folder)+"."+name] = v
		}
	}
	lines := []string{"| held | at most | beyond it | setting |", "|---|---|---|---|"}
	for _, r := range table {
		if !known[r.test] {
			t.Errorf("%s: there is no %s that fills it", r.what, r.test)
		}
		if name := strings.Trim(r.setting, "`"); name != "–" {
			if _, ok := defaultOf(name); !ok {
				t.Errorf("%s: the configuration has no %s", r.what, name)
			}
		}
		line := fmt.Sprintf("| %s | %s | %s | %s |", r.what, r.bound, r.beyond, r.setting)
		lines = append(lines, fill(t, line, values, used))
	}
	bound := regexp.MustCompile(`^\w+\.([mM]ax|kept|held|replay)[A-Z]`)
	for name := range values {
		if bound.MatchString(name) && !strings.HasPrefix(name, "script.") && !strings.HasPrefix(name, "pool.") && !used[name] && others[name] == "" {
			t.Errorf("%s is in no row of the table, and not in others", name)
		}
	}
	compare(t, strings.Join(lines, "\n"))
}

const (
	begin = "<!-- begin held -->\n"
	end   = "\n<!-- end held -->"
)

func compare(t *testing.T, want string) {
	t.Helper()
	const path = "../../docs/limits.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", path)
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s is stale: go test ./test/limits -update", path)
	}
}
