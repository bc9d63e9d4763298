package protocol_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestRandomRun has many sessions do everything at once for some seconds. Then
// nothing must be lost, no lane have had two live claims or run out of commit
// order, and no error have come up. Its sweeps repair lanes without a head, so
// it is TestACommitMeetsAFinish that sees how an empty lane is left. LOCKSTEP_SEED repeats a run's decisions,
// LOCKSTEP_RUN lengthens it (a duration, default 5s).
func TestRandomRun(t *testing.T) {
	t.Parallel()
	seed, length := uint64(time.Now().UnixNano()), 5*time.Second
	if text := os.Getenv("LOCKSTEP_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	if text := os.Getenv("LOCKSTEP_RUN"); text != "" {
		length, _ = time.ParseDuration(text)
	}
	t.Logf("LOCKSTEP_SEED=%d", seed)

	db := testdb.New(t)
	// A job lost for the second time in its third attempt would be set aside for
	// longer than the drain has patience: 24 s.
	db.Exec(t, `select lockstep.set_queue('blocks', on_dead => 'block', backoff_base => '100 ms');
		select lockstep.set_queue('skips', backoff_base => '100 ms')`)
	j := newJournal()
	actors, ctx := errgroup.WithContext(t.Context())
	limit := time.Now().Add(length)
	begin := func(n int, act func(*actor) error) {
		for i := range n {
			a := &actor{
				journal: j, conn: db.Conn(t), ctx: ctx, worker: store.NewWorkerID(), lease: time.Second,
				rand: rand.New(rand.NewPCG(seed, uint64(i)+uint64(len(t.Name())))),
			}
			seed++
			actors.Go(func() error {
				for time.Now().Before(limit) && ctx.Err() == nil {
					if err := act(a); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	begin(4, (*actor).produce)
	begin(5, (*actor).work)
	begin(2, (*actor).meddle)
	begin(1, (*actor).keep)
	if err := actors.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, deadlockReports(t))
	}
	resumeAll(t, db)
	drain(t, db, j)
	judge(t, db, j)
	t.Log(j.counts)
}

// resumeAll ends all pauses. The drain after it finds whatever stays parked.
func resumeAll(t *testing.T, db *testdb.DB) {
	t.Helper()
	all := store.New(db.Conn(t))
	pauses, err := all.Pauses(t.Context())
	for _, p := range pauses {
		if _, resumeErr := all.Resume(t.Context(), p.Scope); resumeErr != nil {
			err = resumeErr
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job where hold = 'p' and not settled"); n > 0 {
		t.Errorf("%d jobs are parked, and nothing is paused", n)
	}
}

// drain works off what is left.
func drain(t *testing.T, db *testdb.DB, j *journal) {
	t.Helper()
	a := &actor{journal: j, conn: db.Conn(t), ctx: t.Context(), worker: store.NewWorkerID(), rand: rand.New(rand.NewPCG(1, 1)), lease: time.Second, calm: true}
	for limit := time.Now().Add(90 * time.Second); ; {
		for range 10 {
			if err := a.work(); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.keep(); err != nil {
			t.Fatal(err)
		}
		db.Exec(t, "select lockstep.set_queue('blocks', on_dead => 'skip')")
		left := testdb.Value[int](t, db, "select count(*) from lockstep.job")
		if left == 0 {
			return
		}
		if time.Now().After(limit) {
			rows, _ := db.Conn(t).Query(t.Context(), "select j::text from (select id, stage, hold, settled, outcome, queue, ordering_key, run_at, lease_until, worker from lockstep.job limit 20) j")
			stuck, err := pgx.CollectRows(rows, pgx.RowTo[string])
			t.Fatalf("%d jobs are left, %v: %v", left, err, stuck)
		}
	}
}

// judge compares the journal with the database.
func judge(t *testing.T, db *testdb.DB, j *journal) {
	t.Helper()
	j.adopt(testdb.Value[[]int64](t, db, "select coalesce(array_agg(id), '{}') from (select id from lockstep.finished_job union select id from lockstep.dead_job) j"))
	problems := j.judge()
	for i, problem := range problems {
		if i < 20 {
			t.Error(problem)
		}
	}
	if len(problems) > 20 {
		t.Errorf("and %d more problems", len(problems)-20)
	}
	judgePlaces(t, db, j)
	judgeOrder(t, db, j)
	if n := testdb.Value[int](t, db, "select deadlocks from pg_stat_database where datname = current_database()"); n > 0 {
		t.Errorf("%d deadlocks", n)
	}
	if n := testdb.Value[int](t, db, `select count(*) from pg_locks where locktype = 'advisory'
		and database = (select oid from pg_database where datname = current_database())`); n > 0 {
		t.Errorf("%d advisory locks are left", n)
	}
}

// judgePlaces sees that every job is in exactly one place, and none but these.
func judgePlaces(t *testing.T, db *testdb.DB, j *journal) {
	t.Helper()
	rows, _ := db.Conn(t).Query(t.Context(), "select id from lockstep.finished_job union all select id from lockstep.dead_job")
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	places := make(map[int64]int)
	for _, id := range ids {
		places[id]++
		if j.jobs[id] == nil {
			t.Errorf("job %d is there and was never committed", id)
		}
	}
	for id, f := range j.jobs {
		if !f.deleted.IsZero() {
			places[id]++
		}
		if f.discarded {
			places[id]++
		}
		if places[id] != 1 {
			t.Errorf("job %d is in %d places: %+v", id, places[id], *f)
		}
	}
}

// judgeOrder sees that jobs first started in the order of their commits, and in
// a transaction in the order of their insertion.
func judgeOrder(t *testing.T, db *testdb.DB, j *journal) {
	t.Helper()
	commits := commitTimes(t, db, j)
	replayedAnew(t, db, j)
	for lane, ids := range j.starts() {
		for i := 1; i < len(ids); i++ {
			before, after := ids[i-1], ids[i]
			first, second := commits[j.jobs[before].xid], commits[j.jobs[after].xid]
			if first.After(second) || j.jobs[before].xid == j.jobs[after].xid && before > after {
				t.Errorf("lane %s: job %d, committed %v, ran before job %d, committed %v", lane, before, first, after, second)
			}
		}
	}
}

// replayedAnew marks the jobs that a replay enqueued again: another transaction
// than their producer's stands in the row. Of those that are not on record any
// more, nobody knows.
func replayedAnew(t *testing.T, db *testdb.DB, j *journal) {
	t.Helper()
	for _, f := range j.jobs {
		f.replayed = f.replayed || f.discarded || !f.deleted.IsZero()
	}
	var id int64
	var xid string
	rows, _ := db.Conn(t).Query(t.Context(), `select id, enqueued_xid::text from lockstep.finished_job
		union all select id, enqueued_xid::text from lockstep.dead_job`)
	if _, err := pgx.ForEachRow(rows, []any{&id, &xid}, func() error {
		if f := j.jobs[id]; f != nil && strconv.FormatUint(f.xid, 10) != xid {
			f.replayed = true
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func commitTimes(t *testing.T, db *testdb.DB, j *journal) map[uint64]time.Time {
	t.Helper()
	times := make(map[uint64]time.Time)
	for _, f := range j.jobs {
		if f.xid > 0 {
			times[f.xid] = time.Time{}
		}
	}
	rows, err := db.Conn(t).Query(t.Context(), "select x::text, pg_xact_commit_timestamp(x::xid) from unnest($1::text[]::xid8[]) x", texts(times))
	if err != nil {
		t.Fatal(err)
	}
	var (
		xid  string
		when time.Time
	)
	if _, err := pgx.ForEachRow(rows, []any{&xid, &when}, func() error {
		n, err := strconv.ParseUint(xid, 10, 64)
		times[n] = when
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return times
}

func texts(times map[uint64]time.Time) (all []string) {
	for xid := range times {
		all = append(all, strconv.FormatUint(xid, 10))
	}
	return all
}

// deadlockReports is what the server's log says of deadlocks: who waited for
// whom, and with which statements.
func deadlockReports(t *testing.T) string {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(testdb.Server(t).Dir(), "server.log"))
	if err != nil {
		return err.Error()
	}
	var report strings.Builder
	for _, after := range strings.Split(string(log), "deadlock detected")[1:] {
		report.WriteString(after[:min(len(after), 4000)])
	}
	return report.String()
}
