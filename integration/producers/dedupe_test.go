package producers_test

import (
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// C76, policy reject: a dedupe key belongs to its job until that is finished or
// dead, through every transition between; then it is free, and a replay meets
// who has it now. The other jobs around do not notice.
func TestC76DedupeKeyThroughEveryTransition(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	d := &deduper{t: t, db: db, s: store.New(db.Conn(t)), worker: store.NewWorkerID()}
	db.Exec(t, "insert into lockstep.job (kind, dedupe_key) select 'other', i from generate_series(1, 1000) i")

	first := d.enqueue(true)
	d.expectTaken("ready", first)
	job := d.claim()
	d.expectTaken("running", first)
	d.finish(job, store.Failed, time.Hour)
	d.expectTaken("retrying", first)
	db.Exec(t, "update lockstep.job set run_at = clock_timestamp() where id = $1", first)
	if moved, err := d.s.Due(t.Context(), 10); err != nil || moved.Due != 1 {
		t.Fatal(moved, err)
	}
	d.claim()
	db.Exec(t, "update lockstep.job set lease_until = clock_timestamp() where id = $1", first)
	d.expectTaken("orphaned", first)
	d.finish(d.claim(), store.Dead, 0)

	second := d.enqueue(true) // the dead one has the key no more
	d.expectReplay(first, store.ReplayDuplicate)
	d.finish(d.claim(), store.Completed, 0)
	d.expectReplay(first, store.Replayed)
	d.expectTaken("replayed", first)
	if third, err := d.s.JobStatus(t.Context(), second); err != nil || third.State != store.StateCompleted {
		t.Errorf("the second job is %v, %v", third.State, err)
	}
	d.finish(d.claim(), store.Completed, 0)
	d.enqueue(true)
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job where kind = 'other' and stage = 'r'"); n != 1000 {
		t.Errorf("%d of 1000 other jobs are ready", n)
	}
}

// deduper enqueues and works jobs that have one dedupe key.
type deduper struct {
	t      *testing.T
	db     *testdb.DB
	s      *store.Store
	worker store.WorkerID
}

// enqueue does so by both ways, which must agree, and answers the id.
func (d *deduper) enqueue(created bool) int64 {
	d.t.Helper()
	job := store.NewJob{Kind: "k", DedupeKey: "key"}
	one, err := d.s.Enqueue(d.t.Context(), job)
	if err != nil || one.Created != created {
		d.t.Errorf("enqueue: %+v, %v; want created = %v", one, err, created)
	}
	many, err := d.s.EnqueueMany(d.t.Context(), []store.NewJob{job, {Kind: "k", DedupeKey: "key"}})
	if err != nil || len(many) != 2 || many[0] != (store.Enqueued{ID: one.ID, Outcome: store.EnqueueExisting}) || many[1] != many[0] {
		d.t.Errorf("enqueue many: %+v, %v; want job %d twice", many, err, one.ID)
	}
	return one.ID
}

func (d *deduper) expectTaken(when string, by int64) {
	d.t.Helper()
	if id := d.enqueue(false); id != by {
		d.t.Errorf("%s: the key is found with job %d, want %d", when, id, by)
	}
}

func (d *deduper) expectReplay(id int64, want store.ReplayState) {
	d.t.Helper()
	if state, err := d.s.Replay(d.t.Context(), id); err != nil || state != want {
		d.t.Errorf("replay: %s, %v; want %s", state, err, want)
	}
}

func (d *deduper) claim() store.Job {
	d.t.Helper()
	claimed, err := d.s.Claim(d.t.Context(), store.ClaimArgs{Worker: d.worker, Queue: "default", Kinds: []string{"k"}, Max: 10, Lease: time.Minute})
	if err != nil || len(claimed.Jobs) != 1 {
		d.t.Fatalf("claimed %+v, %v; want one job", claimed, err)
	}
	return claimed.Jobs[0]
}

func (d *deduper) finish(job store.Job, outcome store.Outcome, delay time.Duration) {
	d.t.Helper()
	answers, err := d.s.Finish(d.t.Context(), store.FinishArgs{Worker: d.worker, Lease: time.Minute, Reports: []store.Finish{
		{Claim: store.Claim{ID: job.ID, Fence: job.Fence}, Outcome: outcome, Delay: &delay},
	}})
	if err != nil || answers[job.ID].State != store.FinishDone {
		d.t.Fatalf("finish: %+v, %v", answers, err)
	}
}
