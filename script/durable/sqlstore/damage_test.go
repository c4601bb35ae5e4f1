package sqlstore_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

var header = script.Header{Program: "p", Args: "a", Engine: 1}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openSQLite(t testing.TB, path string, ring *durable.Ring, encrypt bool, more ...durable.Options) *sqlstore.Store {
	t.Helper()
	o := sqlstore.Options{Ring: ring, Encrypt: encrypt}
	if len(more) > 0 {
		o.Options = more[0]
	}
	s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Options: o, Path: path, Process: true, Poll: time.Millisecond})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// word is in all secret texts: no file may have it where runs are encrypted.
const word = "Zaphod-Beeblebrox"

// fill begins runs in every state, and returns them as they are stored.
func fill(t testing.TB, s durable.Store, keys string, n int) map[string]journal {
	t.Helper()
	filled := map[string]journal{}
	for i := range n {
		r := durable.Run{
			Tool: "onboard", Principal: "anna", Dedupe: fmt.Sprint(keys, i), Args: json.RawMessage(fmt.Sprintf(`{"who": "%s", "n": %d}`, word, i)),
			Program: durable.Program{Main: "a.star", Files: map[string]string{"a.star": "def run(p): return 1\n"}, Engine: 1, Hash: "p"}, Header: &header,
		}
		l, err := s.Create(t.Context(), r, "me", nil)
		must(t, err)
		for k := range 1 + i%5 {
			e := script.Entry{Key: fmt.Sprint(k), Kind: "call", Name: "billing.charge", Attempt: 1, Args: json.RawMessage(`{"to": "` + word + `"}`)}
			must(t, l.Begin(t.Context(), e))
			if k == 3 {
				continue // in doubt
			}
			e.Result = json.RawMessage(`{"content": [{"type": "text", "text": "` + strings.Repeat(word, 1+i) + `"}]}`)
			must(t, l.Record(e))
		}
		q := durable.Question{Key: "9", Method: "elicitation/create", Params: json.RawMessage(`{"message": "` + word + `"}`)}
		o := durable.Outcome{State: []durable.State{durable.Waiting, durable.Done, durable.Doubt, durable.Failed, durable.Sleeping}[i%5], Wake: time.Now().Add(time.Hour)}
		switch o.State {
		case durable.Waiting:
			o.Questions = []durable.Question{q}
		case durable.Doubt:
			o.Doubts = []string{"3"}
		case durable.Done:
			o.Result = json.RawMessage(`"` + word + `"`)
		case durable.Failed:
			o.Error = word
		}
		must(t, l.End(t.Context(), o))
		id := l.Run().ID
		if o.State == durable.Waiting {
			must(t, s.Answer(t.Context(), id, "9", json.RawMessage(`{"action": "accept", "content": {"name": "`+word+`"}}`)))
		}
		got, entries, err := s.Get(t.Context(), id)
		must(t, err)
		filled[id] = journal{got, entries}
	}
	return filled
}

// journal is a run as it was read.
type journal struct {
	run     durable.Run
	entries []script.Entry
}

// differs compares the fields that may not change.
func (j journal) differs(o journal) string {
	return cmp.Diff(j, o, cmp.AllowUnexported(journal{}), cmpopts.IgnoreFields(durable.Run{}, "Epoch", "Owner", "Lease", "Wake", "Updated", "Bytes"),
		cmp.Comparer(func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }))
}

// copyFiles copies the files of a database as a crash would leave them.
func copyFiles(t testing.TB, from, to string) {
	t.Helper()
	for _, name := range []string{"", "-wal", ".lock", ".key"} {
		b, err := os.ReadFile(from + name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		must(t, os.WriteFile(to+name, b, 0o600))
	}
}

// A file that was damaged is refused, or has the values that were written: never other values, and never a
// second run for an idempotency key.
func TestDamage(t *testing.T) {
	testmode.Parallel(t)
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openSQLite(t, path, nil, false)
	want := fill(t, s, "a", 10)
	must(t, s.Close()) // into the database
	s = openSQLite(t, path, nil, false)
	for id, j := range fill(t, s, "b", 5) { // these stay in the log
		want[id] = j
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	refused, right := 0, 0
	for i := range testmode.Count(20, 1000) {
		place := filepath.Join(t.TempDir(), "runs.db")
		copyFiles(t, path, place)
		what := damage(t, rnd, place, i)
		r, w := examine(t, place, want, what)
		refused, right = refused+r, right+w
		if t.Failed() {
			return
		}
	}
	t.Logf("%d times refused, %d times right", refused, right)
	if right == 0 {
		t.Error("no run could be read: nothing was tested")
	}
}

// TestADamagedFileSaysWhatToDo: the error names the file and the ways to repair it, and following them helps.
func TestADamagedFileSaysWhatToDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openSQLite(t, path, nil, false)
	fill(t, s, "a", 3)
	must(t, s.Close())
	backup, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, append([]byte("not a database"), backup[14:]...), 0o600))
	open := func() error {
		s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Path: path})
		if err != nil {
			return err
		}
		return s.Close()
	}
	err = open()
	if want := "the database of runs " + path + " is damaged: "; !errors.Is(err, durable.ErrDamaged) || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "put a backup in its place") {
		t.Fatalf("a damaged file: %v", err)
	}
	must(t, os.WriteFile(path, backup, 0o600))
	removed := regexp.MustCompile(`remove (\S+), (\S+) and (\S+),`).FindStringSubmatch(err.Error())
	for _, name := range removed[1:] {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	must(t, open())
}

// damage flips a bit or cuts a file, and describes the change.
func damage(t *testing.T, rnd *rand.Rand, path string, i int) string {
	file := path
	if i%2 == 1 {
		file += "-wal"
	}
	b, err := os.ReadFile(file)
	must(t, err)
	if len(b) == 0 {
		return "nothing"
	}
	at := rnd.IntN(len(b))
	if i%5 == 4 {
		must(t, os.WriteFile(file, b[:at], 0o600))
		return fmt.Sprintf("%s was cut to %d of %d bytes", filepath.Base(file), at, len(b))
	}
	bit := rnd.IntN(8)
	b[at] ^= 1 << bit
	must(t, os.WriteFile(file, b, 0o600))
	return fmt.Sprintf("bit %d of byte %d of %s was flipped", bit, at, filepath.Base(file))
}

// examine opens a damaged file and compares all runs that it returns.
func examine(t *testing.T, path string, want map[string]journal, what string) (refused, right int) {
	t.Helper()
	s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Path: path, Process: true})
	if err != nil {
		if !strings.Contains(err.Error(), path) {
			t.Errorf("%s: the error does not name the file: %v", what, err)
		}
		return 1, 0
	}
	defer s.Close()
	_, _, _ = s.List(t.Context(), durable.Filter{})
	_, _, _ = s.Due(t.Context(), 100)
	for id, w := range want {
		r, entries, err := s.Get(t.Context(), id)
		if err != nil {
			refused++
			continue
		}
		if d := w.differs(journal{r, entries}); d != "" {
			t.Errorf("%s: run %s (-want +got):\n%s", what, id, d)
		}
		right++
		again, created, err := s.Start(t.Context(), durable.Run{Tool: "onboard", Principal: "anna", Dedupe: w.run.Dedupe, Args: w.run.Args})
		if err == nil && (created || again.ID != id) {
			t.Errorf("%s: the request of %s began another run", what, id)
		}
		if l, err := s.Acquire(t.Context(), id, "me"); err == nil {
			got, err := l.Open(t.Context(), header)
			if err != nil || w.differs(journal{w.run, got}) != "" {
				t.Errorf("%s: Open: %v %s", what, err, w.differs(journal{w.run, got}))
			}
		}
	}
	return refused, right
}

// With encryption no secret text is in any file; without, they are.
func TestNothingIsReadable(t *testing.T) {
	for _, encrypt := range []bool{true, false} {
		folder := t.TempDir()
		s := openSQLite(t, filepath.Join(folder, "runs.db"), ring(t, "a"), encrypt)
		fill(t, s, "a", 10)
		for _, when := range []string{"open", "closed"} {
			if when == "closed" {
				must(t, s.Close())
			}
			files, err := os.ReadDir(folder)
			must(t, err)
			found := false
			for _, f := range files {
				b, err := os.ReadFile(filepath.Join(folder, f.Name()))
				must(t, err)
				found = found || bytes.Contains(b, []byte(word))
				if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s has mode %v, %v", f.Name(), info.Mode(), err)
				}
			}
			if found == encrypt {
				t.Errorf("encrypt %v, %s: the word is in a file: %v", encrypt, when, found)
			}
		}
	}
}

func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	keys := ring(t, "old")
	s := openSQLite(t, path, keys, true)
	want := fill(t, s, "a", 5)
	must(t, keys.Replace([]durable.Key{{ID: "new", Secret: bytes.Repeat([]byte("n"), 32)}, {ID: "old", Secret: bytes.Repeat([]byte("o"), 32)}}))
	for id, w := range want {
		r, entries, err := s.Get(t.Context(), id)
		if err != nil || w.differs(journal{r, entries}) != "" {
			t.Errorf("with the new key first: %v", err)
		}
		if w.run.State == durable.Waiting { // it is executed further
			l, err := s.Acquire(t.Context(), id, "me")
			must(t, err)
			must(t, l.Begin(t.Context(), script.Entry{Key: "20", Kind: "call", Attempt: 1}))
			must(t, l.End(t.Context(), durable.Outcome{State: durable.Done}))
		}
	}
	n := len(fill2(t, s))
	for id, want := range map[string]int{"old": 5, "new": n + 1, "ol": 0} {
		list, _, err := s.List(t.Context(), durable.Filter{SealedBy: id})
		if err != nil || len(list) != want {
			t.Errorf("%d runs are sealed by %s, %v; want %d", len(list), id, err, want)
		}
	}
	must(t, keys.Replace([]durable.Key{{ID: "new", Secret: bytes.Repeat([]byte("n"), 32)}}))
	for id := range want {
		if _, err := s.Acquire(t.Context(), id, "me"); !errors.Is(err, durable.ErrSealed) || !strings.Contains(err.Error(), `"old"`) {
			t.Errorf("Take without the key: %v, want ErrSealed with its name", err)
		}
	}
	must(t, keys.Replace([]durable.Key{{ID: "new", Secret: bytes.Repeat([]byte("n"), 32)}, {ID: "old", Secret: bytes.Repeat([]byte("o"), 32)}}))
	for id := range want {
		if _, _, err := s.Get(t.Context(), id); err != nil {
			t.Errorf("with the key again: %v", err)
		}
	}
}

// fill2 begins one more run.
func fill2(t *testing.T, s durable.Store) []string {
	r, _, err := s.Start(t.Context(), durable.Run{Tool: "onboard"})
	must(t, err)
	return []string{r.ID}
}

func TestSecondServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openSQLite(t, path, nil, false)
	_, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Path: path})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("the second server: %v", err)
	}
	beside, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Path: path, Beside: true})
	must(t, err)
	must(t, beside.Close())
	must(t, s.Close())
	openSQLite(t, path, nil, false)
}

// The runs that a server owned are due at once when the next one starts: the lock shows that the first has ended.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openSQLite(t, path, nil, false)
	l, err := s.Create(t.Context(), durable.Run{Tool: "x", Header: &header}, "me", nil)
	must(t, err)
	must(t, l.Begin(t.Context(), script.Entry{Key: "0", Kind: "call", Attempt: 1}))
	crashed := filepath.Join(t.TempDir(), "runs.db")
	copyFiles(t, path, crashed)
	next := openSQLite(t, crashed, nil, false)
	due, _, err := next.Due(t.Context(), 10)
	if err != nil || len(due) != 1 || due[0] != l.Run().ID {
		t.Fatalf("due: %v, %v", due, err)
	}
	_, entries, err := next.Get(t.Context(), due[0])
	if err != nil || len(entries) != 1 || entries[0].Done {
		t.Errorf("entries %+v, %v: want the call that was begun", entries, err)
	}
}

func TestMissingCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openSQLite(t, path, nil, false)
	old := filepath.Join(t.TempDir(), "runs.db")
	copyFiles(t, path, old)
	fill(t, s, "a", 2)
	must(t, s.Close())
	lock, err := os.ReadFile(path + ".lock")
	must(t, err)
	must(t, os.WriteFile(old+".lock", lock, 0o600))
	_, err = sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Path: old, Process: true})
	if !errors.Is(err, durable.ErrDamaged) || !strings.Contains(err.Error(), "were acknowledged") {
		t.Errorf("an old copy: %v", err)
	}
	must(t, os.Remove(old+".lock"))
	openSQLite(t, old, nil, false)
}

func TestStartErrors(t *testing.T) {
	folder := t.TempDir()
	newer := filepath.Join(folder, "newer.db")
	s := openSQLite(t, newer, nil, false)
	must(t, s.Close())
	sqlstore.SetVersion(t, newer, 99)
	notOne := filepath.Join(folder, "not.db")
	must(t, os.WriteFile(notOne, []byte(strings.Repeat("no database ", 100)), 0o600))
	badKey := filepath.Join(folder, "key.db")
	must(t, os.WriteFile(badKey+".key", []byte("short"), 0o600))
	for path, want := range map[string]string{
		newer: "version 99", notOne: "not a database", badKey: "key.db.key", filepath.Join(folder, "no/such/runs.db"): "no such file",
	} {
		_, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Path: path})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// A full disk stops runs before their next effect, and nothing else; when there is space again, they are executed further.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	var log bytes.Buffer
	s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Options: sqlstore.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, Path: path, Process: true})
	must(t, err)
	defer s.Close()
	want := fill(t, s, "a", 5)
	l, err := s.Create(t.Context(), durable.Run{Tool: "x", Header: &header}, "me", nil)
	must(t, err)
	sqlstore.SetPages(t, s, 0)
	n := 0
	for ; err == nil && n < 500; n++ {
		err = l.Begin(t.Context(), script.Entry{Key: fmt.Sprint(n), Kind: "call", Attempt: 1, Args: json.RawMessage(`"` + strings.Repeat("x", 5000) + `"`)})
	}
	if !errors.Is(err, durable.ErrUnavailable) || !errors.Is(err, durable.ErrFull) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "full") {
		t.Fatalf("Begin on a full disk: %v, want the file and the cause", err)
	}
	if _, _, err := s.Start(t.Context(), durable.Run{Tool: "y", Args: json.RawMessage(`"` + strings.Repeat("x", 50000) + `"`)}); !errors.Is(err, durable.ErrUnavailable) {
		t.Errorf("Start on a full disk: %v", err)
	}
	for id, w := range want {
		if r, entries, err := s.Get(t.Context(), id); err != nil || w.differs(journal{r, entries}) != "" {
			t.Errorf("Get on a full disk: %v", err)
		}
	}
	for range 2 {
		if err := s.Ping(t.Context()); !errors.Is(err, durable.ErrFull) {
			t.Errorf("Ping on a full disk: %v", err)
		}
	}
	sqlstore.SetPages(t, s, 1<<20)
	must(t, s.Ping(t.Context()))
	if text := log.String(); strings.Count(text, "level=ERROR") != 1 || strings.Count(text, "is written again") != 1 {
		t.Errorf("the log has not one line of the full disk and one of its end:\n%s", text)
	}
	must(t, l.Begin(t.Context(), script.Entry{Key: "room", Kind: "call", Attempt: 1}))
	must(t, l.End(t.Context(), durable.Outcome{State: durable.Done}))
	_, entries, err := s.Get(t.Context(), l.Run().ID)
	if err != nil || len(entries) != n || entries[n-1].Key != "room" { // the one that failed was not begun
		t.Errorf("%d entries, %v: want %d", len(entries), err, n)
	}
}

// A call that may not be repeated costs one write: its answer is written with the begin of the next call, unless
// that is more than 2 ms later.
func TestOneWriteForACall(t *testing.T) {
	var writes atomic.Int64
	s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{
		Options: sqlstore.Options{Wrote: func(time.Duration, error) { writes.Add(1) }}, Path: filepath.Join(t.TempDir(), "runs.db"), Process: true,
	})
	must(t, err)
	defer s.Close()
	const calls = 10
	least := int64(100)
	for range 50 { // a machine that is busy writes some answers before the next call
		writes.Store(0)
		l, err := s.Create(t.Context(), durable.Run{Tool: "x", Header: &header}, "me", nil)
		must(t, err)
		for k := range calls {
			e := script.Entry{Key: fmt.Sprint(k), Kind: "call", Attempt: 1}
			must(t, l.Begin(t.Context(), e))
			must(t, l.Record(e))
		}
		must(t, l.End(t.Context(), durable.Outcome{State: durable.Done}))
		if least = min(least, writes.Load()); least <= calls+1 {
			return
		}
	}
	t.Errorf("%d calls and the end were %d writes, want at most %d", calls, least, calls+1)
}

// The texts of pruned runs are in no file any more once the server has ended.
func TestPrunedIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openSQLite(t, path, nil, false)
	for id, j := range fill(t, s, "a", 10) {
		if !j.run.State.Final() {
			must(t, s.Cancel(t.Context(), id, "enough"))
		}
	}
	n, err := s.Prune(t.Context(), durable.Old{Before: time.Now().Add(time.Minute)})
	must(t, err)
	must(t, s.Close())
	b, err := os.ReadFile(path)
	must(t, err)
	if n != 10 || bytes.Contains(b, []byte(word)) {
		t.Errorf("%d runs were pruned, want 10 and nothing left of them", n)
	}
}
