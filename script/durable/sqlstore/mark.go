package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// SQLite treats a write-ahead log whose end is damaged as one that was cut off by a crash, and
// ignores that end. That is right for commits that were never acknowledged; if acknowledged ones
// were lost, calls would be made twice. So every group of writes increments a counter in the database,
// and the lock file has the counter of the last acknowledged commit. It is written after the commit
// and not synced: it is never ahead of the database, unless commits are missing.
//
//	commits(8) | boot(8) | sum(8)

const markSize = 24

// mark writes the number of acknowledged commits to the lock file.
func (f *file) mark() error {
	if f.lock == nil {
		return nil
	}
	f.lock.commits++
	return f.lock.write(f.lock.commits)
}

// countCommit increments the counter in the database.
func (f *file) countCommit(ctx context.Context) error {
	if f.lock == nil {
		return nil
	}
	_, err := f.stmts.ExecContext(ctx, "UPDATE meta SET value = ? WHERE name = 'commits'", f.lock.commits+1)
	return f.failure("write", err)
}

// checkMark compares the counter of the database with the mark of the lock file. With process, commits may
// be missing after the machine was restarted.
func (f *file) checkMark(ctx context.Context, process bool) error {
	var have int64
	if err := f.conn.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'commits'").Scan(&have); err != nil {
		return f.failure("read", err)
	}
	acknowledged, boot, ok := f.lock.read()
	if ok && acknowledged > have && !(process && boot != bootID()) {
		return damage(fmt.Sprintf("the database of runs %s has %d commits and %d were acknowledged: the end of %s-wal is missing, or the file is an old copy; to use it all the same, which may make calls again that were made before, remove %s",
			f.path, have, acknowledged, f.path, f.lock.path))
	}
	f.lock.commits = max(have, acknowledged)
	return nil
}

// lockFile is the file that the process which serves the database has locked. It has the mark.
type lockFile struct {
	path    string
	file    *os.File
	commits int64
}

func (l *lockFile) write(commits int64) error {
	b := binary.BigEndian.AppendUint64(nil, uint64(commits))
	b = binary.BigEndian.AppendUint64(b, bootID())
	sum := sha256.Sum256(b)
	if _, err := l.file.WriteAt(append(b, sum[:8]...), 0); err != nil {
		return fmt.Errorf("%w: %w", durable.ErrUnavailable, err)
	}
	return nil
}

// read returns the mark; false where there is none that is complete.
func (l *lockFile) read() (commits int64, boot uint64, ok bool) {
	b := make([]byte, markSize)
	if n, _ := l.file.ReadAt(b, 0); n != markSize {
		return 0, 0, false
	}
	if sum := sha256.Sum256(b[:16]); string(sum[:8]) != string(b[16:]) {
		return 0, 0, false
	}
	return int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:]), true
}

func (l *lockFile) close() error { return l.file.Close() }

// bootID is a number that differs after each boot of the machine, on Linux; else 0.
func bootID() uint64 {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

func lockPath(path string) (*lockFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("another process serves the runs of this file (%s is locked: %v)", path, err)
	}
	return &lockFile{path: path, file: f}, nil
}
