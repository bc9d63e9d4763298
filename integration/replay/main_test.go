package replay

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/puppet"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

func TestMain(m *testing.M) {
	puppet.Register()
	os.Exit(workerproc.Main(m))
}

// expect compares one value from the database.
func expect[T comparable](t *testing.T, s *puppet.Scene, want T, what, sql string, args ...any) {
	t.Helper()
	var got T
	if err := s.Conn(t).QueryRow(t.Context(), "select "+sql, args...).Scan(&got); err != nil || got != want {
		t.Errorf("%s: %v, want %v (%v)", what, got, want, err)
	}
}

// times are the values of one column, in its order.
func times(t *testing.T, s *puppet.Scene, sql string) []time.Time {
	t.Helper()
	rows, err := s.Conn(t).Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// most is how many of the times, which are sorted, lie within one second.
func most(at []time.Time) (n int) {
	first := 0
	for i, end := range at {
		for end.Sub(at[first]) >= time.Second {
			first++
		}
		n = max(n, i-first+1)
	}
	return n
}

// stalls measures how much of the time a process on this machine, which wants
// to ask the server something every 20 ms, can't: what no queue could keep.
func stalls(t *testing.T, s *puppet.Scene) (end func() time.Duration) {
	t.Helper()
	conn := s.Conn(t)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	lost := make(chan time.Duration)
	go func() {
		var sum time.Duration
		defer func() { lost <- sum }()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := conn.Exec(context.WithoutCancel(ctx), "select 1"); err != nil {
				return
			}
			sum += max(0, time.Since(last)-50*time.Millisecond)
			last = time.Now()
		}
	}()
	return func() time.Duration { cancel(); return <-lost }
}
