package protocol_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/migrations"
)

var (
	comment   = regexp.MustCompile(`(?m)--.*$`)
	lockCall  = regexp.MustCompile(`(?i)\b(pg_(try_)?advisory\w*|try_entry|hold_lane)\s*\(`)
	limitWord = regexp.MustCompile(`(?i)\blimit\b`)
	nowCall   = regexp.MustCompile(`(?i)\b(now\s*\(|current_timestamp|localtimestamp|transaction_timestamp|current_date|current_time\b)`)
)

// locksBesideLimit tells of a statement that calls a lock function and has a
// LIMIT: a plan may evaluate the call for rows that the LIMIT then drops.
func locksBesideLimit(statement string) bool {
	return lockCall.MatchString(statement) && limitWord.MatchString(statement)
}

func TestNoStatementLocksBesideALimit(t *testing.T) {
	t.Parallel()
	if !locksBesideLimit("select id from job where pg_try_advisory_xact_lock(id) limit 1") || locksBesideLimit("select 1 limit 1") {
		t.Fatal("the look itself is broken")
	}
	eachStatement(t, func(file, statement string) {
		if locksBesideLimit(statement) {
			t.Errorf("%s:%s", file, statement)
		}
	})
}

// TestNoStateFunctionAsksTheTransactionsClock: now() is a transaction's start,
// which may be hours ago.
func TestNoStateFunctionAsksTheTransactionsClock(t *testing.T) {
	t.Parallel()
	if !nowCall.MatchString("select now ()") || nowCall.MatchString("clock_timestamp()") {
		t.Fatal("the look itself is broken")
	}
	eachStatement(t, func(file, statement string) {
		if nowCall.MatchString(statement) {
			t.Errorf("%s:%s", file, statement)
		}
	})
}

func eachStatement(t *testing.T, look func(file, statement string)) {
	t.Helper()
	seen := 0
	err := fs.WalkDir(migrations.Files(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(migrations.Files(), path)
		for statement := range strings.SplitSeq(comment.ReplaceAllString(string(data), ""), ";") {
			look(path, statement)
			seen++
		}
		return err
	})
	if err != nil || seen < 100 {
		t.Errorf("looked at %d statements: %v", seen, err)
	}
}
