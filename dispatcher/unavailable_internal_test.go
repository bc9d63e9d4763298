package dispatcher

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestC10_FullNotifyQueueIsTemporary: what can't be committed while the queue of
// notifications is full is not the job's fault, and is tried again.
func TestC10_FullNotifyQueueIsTemporary(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want bool
	}{
		{&pgconn.PgError{Code: "54000", File: "async.c", Severity: "ERROR"}, true},
		{&pgconn.PgError{Code: "54000", File: "nbtutils.c"}, false},
		{&pgconn.PgError{Code: "23505"}, false},
		{&pgconn.PgError{Code: codeReadOnly}, true},
		{errors.New("connection reset"), true},
		{nil, false},
	} {
		if got := unavailable(test.err); got != test.want {
			t.Errorf("%#v: %v", test.err, got)
		}
	}
}
