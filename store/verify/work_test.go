package verify_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/store/verify"
)

// What a job of the mixed run does in its attempts.
const (
	succeed = "succeed"
	fail    = "fail" // the first attempt
	die     = "die"  // and, once replayed, succeed
	snooze  = "snooze"
	vanish  = "vanish" // succeed, after a pause in which its dispatcher is stopped
)

var plans = []string{succeed, succeed, fail, die, snooze}

var errPlanned = errors.New("as planned")

// mixed is a run of real dispatchers on jobs of all sorts.
type mixed struct {
	*stage
	pool     *pgxpool.Pool
	replayed atomic.Bool
	running  chan struct{} // told when a job that vanishes has started
}

// perform is what every handler does.
func (m *mixed) perform(ctx context.Context, attempt int, plan string) error {
	switch {
	case plan == fail && attempt == 1:
		return dispatcher.RetryAfter(time.Millisecond, errPlanned)
	case plan == snooze && attempt == 1 && !m.replayed.Load():
		return dispatcher.Snooze(time.Hour)
	case plan == die && !m.replayed.Load():
		return backoff.Permanent(errPlanned)
	case plan == vanish && !m.replayed.Load():
		m.running <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	default:
		return nil
	}
}

func (m *mixed) dispatcher() *dispatcher.Dispatcher {
	m.Helper()
	d, err := dispatcher.New(m.pool, dispatcher.Config{
		Queues:        map[string]dispatcher.Queue{"default": {Concurrency: 8}, "blocks": {Concurrency: 8}},
		ShutdownGrace: -1, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		m.Fatal(err)
	}
	dispatcher.Handle(d, "plain", func(ctx context.Context, job dispatcher.Job[string]) error {
		return m.perform(ctx, job.Attempt, job.Payload)
	})
	dispatcher.HandleTx(d, "tx", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[string]) error {
		if _, err := tx.Exec(ctx, "select 1"); err != nil {
			return err
		}
		return m.perform(ctx, job.Attempt, job.Payload)
	})
	return d
}

// enqueueMixed commits jobs of every queue, kind, plan and way to be enqueued.
func (m *mixed) enqueueMixed(keys int) (ids []int64) {
	m.Helper()
	n := 0
	for _, queue := range []string{"default", "blocks"} {
		for _, kind := range []string{"plain", "tx"} {
			for key := range keys {
				for _, plan := range plans {
					job := store.NewJob{Kind: kind, Queue: queue, Payload: plan}
					if key > 0 {
						job.OrderingKey = fmt.Sprint(kind, key)
					}
					if n++; n%7 == 0 {
						job.Delay = time.Duration(n) * time.Millisecond
					}
					ids = append(ids, m.add(job))
				}
			}
		}
	}
	return ids
}

// idle works off what there is.
func (m *mixed) idle() {
	m.Helper()
	if err := m.dispatcher().RunUntilIdle(m.Context()); err != nil {
		m.Fatal(err)
	}
}

// TestARealRunIsClean: keyed and keyless, retried, dead, blocked, replayed,
// cancelled, snoozed, released, scheduled, in a transaction or not; in the
// middle of it, with jobs running, and at the end.
func TestARealRunIsClean(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := &mixed{stage: s, pool: s.db.Pool(t), running: make(chan struct{})}
	m.sql("select lockstep.set_queue('blocks', on_dead => 'block')")
	given := m.enqueueMixed(4)
	m.idle()
	middle := m.verify(verify.Config{IDs: ids(given...)})
	clean(t, middle)
	if middle.Totals[verify.Blocked] == 0 || middle.Checked.Dead == 0 || middle.Checked.Attempts == 0 {
		t.Errorf("too little happened: %+v", middle)
	}
	m.sql("select lockstep.cancel(id) from lockstep.job where hold <> 'x' and id % 5 = 0")
	given = append(given, m.release()...)
	m.replayed.Store(true)
	m.sql("select lockstep.replay(id) from lockstep.dead_job where id % 3 > 0")
	m.sql("update lockstep.job set run_at = clock_timestamp() where stage = 'b' and hold = '-'")
	given = append(given, m.enqueueMixed(2)...)
	m.idle()
	m.sql("select lockstep.unblock_lane(queue, tenant, ordering_key) from lockstep.job where hold = 'x'")
	m.idle()

	end := m.verify(verify.Config{IDs: ids(given...)})
	clean(t, end)
	if end.Checked.Live != 0 || end.Checked.IDs.Given != int64(len(given)) || end.Checked.Timed == 0 || end.Checked.Untimed != 0 {
		t.Errorf("checked %+v, want all of %d jobs ended and timed", end.Checked, len(given))
	}
	for outcome, n := range m.outcomes() {
		if n == 0 {
			t.Errorf("no attempt was %s", outcome)
		}
	}
}

// release stops a dispatcher while a job runs, and verifies before.
func (m *mixed) release() []int64 {
	m.Helper()
	ids := []int64{m.add(store.NewJob{Kind: "plain", OrderingKey: "vanishing", Payload: vanish})}
	ids = append(ids, m.add(store.NewJob{Kind: "plain", OrderingKey: "vanishing", Payload: succeed}))
	ctx, stop := context.WithCancel(m.Context())
	done := make(chan error)
	go func() { done <- m.dispatcher().Run(ctx) }()
	<-m.running
	clean(m, m.verify(verify.Config{}))
	stop()
	if err := <-done; err != nil {
		m.Fatal(err)
	}
	return ids
}

// outcomes counts the attempts on record by how they ended.
func (m *mixed) outcomes() map[string]int {
	m.Helper()
	counts := map[string]int{"failed": 0, "dead": 0, "snoozed": 0, "released": 0}
	rows, err := m.conn.Query(m.Context(), "select outcome, count(*) from lockstep.attempt group by 1")
	if err != nil {
		m.Fatal(err)
	}
	var outcome string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&outcome, &n}, func() error { counts[outcome] = n; return nil }); err != nil {
		m.Fatal(err)
	}
	return counts
}
