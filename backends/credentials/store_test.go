package credentials_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// storeOf is the variable with the file in which a child process of the tests stores storeTimes
// logins, for the principal of storeAs, each with its number as token. It prints each number when Put
// has returned.
const (
	storeOf    = "CREDENTIALS_STORE"
	storeAs    = "CREDENTIALS_NAME"
	storeTimes = "CREDENTIALS_TIMES"
)

func TestMain(m *testing.M) {
	file := os.Getenv(storeOf)
	if file == "" {
		os.Exit(m.Run())
	}
	times, _ := strconv.Atoi(os.Getenv(storeTimes))
	s, err := openStore(file)
	for i := 1; i <= times && err == nil; i++ {
		name := os.Getenv(storeAs)
		if !strings.HasSuffix(name, "same") {
			name += fmt.Sprint(i)
		}
		if err = s.Put(context.Background(), "b", name, &credentials.Grant{Access: fmt.Sprint(i), Refresh: strings.Repeat("r", 20_000)}); err == nil {
			fmt.Println(i)
		}
		<-time.After(time.Duration(rand.IntN(20)) * time.Millisecond) // others ask every 10 ms whether the file is free: one that never rests keeps them out
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func openStore(file string) (*credentials.Store, error) {
	return credentials.OpenStore(config.TokenStore{File: file, Key: base64.StdEncoding.EncodeToString(make([]byte, 32))})
}

func storing(file, name string, times int) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), storeOf+"="+file, storeAs+"="+name, fmt.Sprint(storeTimes, "=", times))
	cmd.Stderr = os.Stderr
	return cmd
}

// A process that is killed while it stores a login leaves the previous or the new one, and no
// lock that blocks the next process.
func TestAKilledProcessLeavesAWholeStore(t *testing.T) {
	for round := range testmode.Count(4, 40) {
		file := filepath.Join(t.TempDir(), "tokens.db")
		cmd := storing(file, "same", 1_000_000)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		last := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if last, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
			if last == 2+round {
				_ = cmd.Process.Kill() // the rest of the lines is read, too
			}
		}
		_ = cmd.Wait()
		s, err := openStore(file)
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Find(t.Context(), "b", "same")
		if err != nil || g == nil || g.Access != fmt.Sprint(last) && g.Access != fmt.Sprint(last+1) {
			t.Fatalf("the store has %+v, %v, after login %d was stored", g, err, last)
		}
		if err := s.Put(t.Context(), "b", "next", &credentials.Grant{Access: "x"}); err != nil {
			t.Errorf("the next process: %v", err)
		}
		if g, err := s.Find(t.Context(), "b", "same"); err != nil || g == nil {
			t.Errorf("after the next process: %v, %v", g, err)
		}
	}
}

// Processes that share a file do not lose each other's logins, and keep its mode at 0600.
func TestProcessesShareAStore(t *testing.T) {
	const processes, times = 3, 15
	file := filepath.Join(t.TempDir(), "tokens.db")
	var all sync.WaitGroup
	for i := range processes {
		all.Go(func() {
			if out, err := storing(file, fmt.Sprintf("process%d-", i), times).Output(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	s, err := openStore(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range processes {
		for j := 1; j <= times; j++ {
			if g, err := s.Find(t.Context(), "b", fmt.Sprintf("process%d-%d", i, j)); err != nil || g == nil || g.Access != fmt.Sprint(j) {
				t.Errorf("login %d of process %d: %+v, %v", j, i, g, err)
			}
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the store there is %v, %v", left, err)
	}
}
