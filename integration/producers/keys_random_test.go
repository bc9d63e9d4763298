package producers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestRandomKeys has producers enqueue under every dedupe policy, in
// transactions of one call that stay open for a while, and workers retry, lose,
// give back and bury what they claim, while others replay, lock rows and let
// jobs fall due. No key must have more jobs than its policies allow, no claim
// hand out an older payload than was committed before it, and one_more lose
// none. LOCKSTEP_SEED repeats a run's decisions.
func TestRandomKeys(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("LOCKSTEP_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("LOCKSTEP_SEED=%d", seed)
	db := testdb.New(t)
	j := &keyJournal{counts: make(map[string]int)}
	var versions atomic.Int64
	actors, ctx := errgroup.WithContext(t.Context())
	limit := time.Now().Add(length(t) + 2*time.Second)
	begin := func(n int, act func(*keyActor) error) {
		for range n {
			seed++
			a := &keyActor{
				keyJournal: j, versions: &versions, conn: db.Conn(t), ctx: ctx, worker: store.NewWorkerID(),
				rand: rand.New(rand.NewPCG(seed, seed)),
			}
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
	begin(5, (*keyActor).produce)
	begin(4, (*keyActor).work)
	begin(2, (*keyActor).disturb)
	begin(1, (*keyActor).watch)
	if err := actors.Wait(); err != nil {
		t.Fatal(err)
	}
	drainKeys(t, db, j, &versions)
	for i, problem := range j.judge() {
		if i < 20 {
			t.Error(problem)
		}
	}
	t.Log(j.counts)
	for _, outcome := range []string{"created", "existing", "noted"} {
		if j.counts["one_more: "+outcome] == 0 && outcome != "existing" || j.counts["replace: "+outcome] == 0 {
			t.Errorf("no request came out %s", outcome)
		}
	}
	if n := testdb.Value[int](t, db, "select deadlocks from pg_stat_database where datname = current_database()"); n > 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// keyActor is one session of the run.
type keyActor struct {
	*keyJournal
	versions *atomic.Int64
	conn     *pgx.Conn
	ctx      context.Context
	worker   store.WorkerID
	rand     *rand.Rand
	calm     bool
}

const keyLease = time.Second

func (a *keyActor) percent(n int) bool { return a.rand.IntN(100) < n }

// keyed is a request for a random key. The policies of a key are in its name.
func (a *keyActor) keyed() (store.NewJob, int) {
	policies := [][]store.Dedupe{
		{store.DedupeReject, store.DedupeReplace},
		{store.DedupeOneMore},
		{store.DedupeReject, store.DedupeReplace, store.DedupeOneMore},
	}[a.rand.IntN(3)]
	version := int(a.versions.Add(1))
	key := fmt.Sprintf("%d of %d", a.rand.IntN(3), len(policies))
	job := store.NewJob{
		Kind: "k", DedupeKey: key, Dedupe: policies[a.rand.IntN(len(policies))], MaxAttempts: 1 + a.rand.IntN(3),
		OrderingKey: key, Payload: json.RawMessage(fmt.Sprintf(`{"v": %d}`, version)),
	}
	if a.percent(10) {
		job.Delay = time.Duration(a.rand.IntN(20)) * time.Millisecond
	}
	return job, version
}

// produce runs a producer's transaction: one call, of one request or several.
func (a *keyActor) produce() error {
	jobs, requests := []store.NewJob{}, []asked{}
	for len(jobs) == 0 || a.percent(40) {
		job, version := a.keyed()
		jobs = append(jobs, job)
		requests = append(requests, asked{key: job.DedupeKey, policy: string(job.Dedupe), version: version})
	}
	tx, err := a.conn.Begin(a.ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(a.ctx)) }()
	answers := make([]store.Enqueued, 1)
	if len(jobs) == 1 {
		answers[0], err = store.New(tx).Enqueue(a.ctx, jobs[0])
	} else {
		answers, err = store.New(tx).EnqueueMany(a.ctx, jobs)
	}
	if err == nil && a.percent(20) {
		_, err = tx.Exec(a.ctx, "select pg_sleep($1)", 0.02*a.rand.Float64())
	}
	if err != nil || a.percent(10) {
		return err
	}
	begin := time.Now()
	if err := tx.Commit(a.ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range requests {
		requests[i].answer, requests[i].begin, requests[i].end = answers[i], begin, time.Now()
		a.counts[requests[i].policy+": "+string(answers[i].Outcome)]++
	}
	a.asked = append(a.asked, requests...)
	return nil
}

// work claims some jobs and lets each end in one way or another.
func (a *keyActor) work() error {
	sent := time.Now()
	claimed, err := store.New(a.conn).Claim(a.ctx, store.ClaimArgs{Worker: a.worker, Queue: "default", Kinds: []string{"k"}, Max: 4, Lease: keyLease})
	if err != nil || len(claimed.Jobs) == 0 {
		<-time.After(time.Millisecond)
		return err
	}
	answered := time.Now()
	for _, job := range claimed.Jobs {
		var payload struct{ V int }
		if err := json.Unmarshal(job.Payload, &payload); err != nil {
			return err
		}
		h := &handed{id: job.ID, fence: job.Fence, key: job.OrderingKey, version: payload.V, sent: sent, answered: answered, lease: sent.Add(keyLease)}
		a.mu.Lock()
		a.handed = append(a.handed, h)
		a.mu.Unlock()
		if !a.calm && a.percent(3) {
			a.count("abandoned")
			continue
		}
		if err := a.report(h); err != nil {
			return err
		}
	}
	return nil
}

// report ends a claim, repeating what is answered busy.
func (a *keyActor) report(h *handed) error {
	delay := time.Duration(a.rand.IntN(30)) * time.Millisecond
	report := store.Finish{Claim: store.Claim{ID: h.id, Fence: h.fence}, Outcome: store.Completed}
	if n := a.rand.IntN(100); !a.calm && n < 40 {
		outcomes := []store.Outcome{store.Failed, store.Failed, store.Dead, store.Snoozed, store.Released}
		report.Outcome, report.Delay, report.Error = outcomes[n%5], &delay, "error"
	}
	h.reported = time.Now()
	for {
		answers, err := store.New(a.conn).Finish(a.ctx, store.FinishArgs{Worker: a.worker, Lease: keyLease, Reports: []store.Finish{report}})
		if err != nil {
			return fmt.Errorf("finish: %w", err)
		}
		if answers[h.id].State != store.FinishBusy {
			a.count(string(report.Outcome))
			return nil
		}
	}
}

// disturb is what others do meanwhile.
func (a *keyActor) disturb() error {
	switch n := a.rand.IntN(10); {
	case n < 5:
		if _, err := store.New(a.conn).Due(a.ctx, 50); err != nil {
			return fmt.Errorf("due: %w", err)
		}
	case n < 8:
		return pgx.BeginFunc(a.ctx, a.conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(a.ctx, `select from lockstep.job where id = (select id from lockstep.job order by random() limit 1) for update skip locked`)
			if err == nil {
				_, err = tx.Exec(a.ctx, "select pg_sleep(0.005)")
			}
			return err
		})
	default:
		var answer string
		err := a.conn.QueryRow(a.ctx, "select lockstep.replay(id) from (select id from lockstep.dead_job order by random() limit 1) d").Scan(&answer)
		if err == nil {
			a.count("replay: " + answer)
		} else if !errors.Is(err, pgx.ErrNoRows) && !strings.Contains(err.Error(), "LS006") {
			return fmt.Errorf("replay: %w", err)
		}
	}
	return nil
}

// watch looks at how many jobs each key has.
func (a *keyActor) watch() error {
	rows, err := a.conn.Query(a.ctx, `select dedupe_key, count(*), count(*) filter (where fence = 0)
		from lockstep.job where not settled group by 1`)
	if err != nil {
		return err
	}
	var key string
	var jobs, unclaimed int
	_, err = pgx.ForEachRow(rows, []any{&key, &jobs, &unclaimed}, func() error {
		if jobs > 2 || unclaimed > 1 || jobs > 1 && strings.HasSuffix(key, "of 2") {
			a.problem("%s has %d jobs, %d of them not claimed", key, jobs, unclaimed)
		}
		if jobs > 1 {
			a.count("pairs seen")
		}
		return nil
	})
	<-time.After(2 * time.Millisecond)
	return err
}

// drainKeys works off what is left.
func drainKeys(t *testing.T, db *testdb.DB, j *keyJournal, versions *atomic.Int64) {
	t.Helper()
	a := &keyActor{keyJournal: j, versions: versions, conn: db.Conn(t), ctx: t.Context(), worker: store.NewWorkerID(), rand: rand.New(rand.NewPCG(1, 1)), calm: true}
	for limit := time.Now().Add(30 * time.Second); ; {
		if _, err := store.New(a.conn).Due(t.Context(), 200); err != nil {
			t.Fatal(err)
		}
		if _, err := store.New(a.conn).Sweep(t.Context(), 1000, "", nil); err != nil {
			t.Fatal(err)
		}
		if err := a.work(); err != nil {
			t.Fatal(err)
		}
		if testdb.Value[int](t, db, "select (select count(*) from lockstep.job) + (select count(*) from lockstep.dedupe_note where not missed)") == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("left: %s", testdb.Value[string](t, db, `select coalesce(string_agg(j::text, e'\n'), '') from (select id, stage, hold, settled, fence, dedupe_key, dedupe_seat, run_at from lockstep.job limit 10) j`)+
				testdb.Value[string](t, db, `select coalesce(string_agg(n::text, e'\n'), '') from lockstep.dedupe_note n where not missed`))
		}
	}
}
