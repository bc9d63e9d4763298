package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

const lease = time.Minute

// rig is a store on one connection, and a worker.
type rig struct {
	*store.Store
	t      *testing.T
	db     *testdb.DB
	worker store.WorkerID
}

func newRig(t *testing.T) *rig {
	t.Helper()
	db := testdb.New(t)
	return &rig{Store: store.New(db.Conn(t)), t: t, db: db, worker: store.NewWorkerID()}
}

// put enqueues jobs of kind k into a lane; "" is none.
func (r *rig) put(key string, n int) (ids []int64) {
	r.t.Helper()
	for range n {
		answer, err := r.Enqueue(r.t.Context(), store.NewJob{Kind: "k", OrderingKey: key})
		if err != nil {
			r.t.Fatal(err)
		}
		ids = append(ids, answer.ID)
	}
	return ids
}

// look claims up to n jobs of kind k.
func (r *rig) look(n int) store.Claimed {
	r.t.Helper()
	claimed, err := r.Claim(r.t.Context(), store.ClaimArgs{Worker: r.worker, Queue: "default", Kinds: []string{"k"}, Max: n, Lease: lease})
	if err != nil {
		r.t.Fatal(err)
	}
	return claimed
}

// take claims the one job that must be there.
func (r *rig) take() store.Job {
	r.t.Helper()
	jobs := r.look(10).Jobs
	if len(jobs) != 1 {
		r.t.Fatalf("%d jobs, want 1", len(jobs))
	}
	return jobs[0]
}

// report is a finish of one job, without a delay.
func (r *rig) report(job store.Job, outcome store.Outcome) store.FinishState {
	r.t.Helper()
	return r.finish(store.FinishArgs{}, store.Finish{Claim: claim(job), Outcome: outcome, Delay: new(time.Duration)}).State
}

// finish completes args with a worker and one report.
func (r *rig) finish(args store.FinishArgs, report store.Finish) store.Finished {
	r.t.Helper()
	args.Worker, args.Lease, args.Reports = r.worker, lease, []store.Finish{report}
	answers, err := r.Finish(r.t.Context(), args)
	if err != nil {
		r.t.Fatal(err)
	}
	return answers[report.ID]
}

// die takes the job that must be there and lets it fail for good.
func (r *rig) die() int64 {
	r.t.Helper()
	job := r.take()
	if state := r.report(job, store.Dead); state != store.FinishDone {
		r.t.Fatalf("dead: %s", state)
	}
	return job.ID
}

func (r *rig) status(id int64) store.Status {
	r.t.Helper()
	status, err := r.JobStatus(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return status
}

func (r *rig) expectState(id int64, want store.State) {
	r.t.Helper()
	if got := r.status(id).State; got != want {
		r.t.Errorf("job %d is %s, want %s", id, got, want)
	}
}

func claim(job store.Job) store.Claim { return store.Claim{ID: job.ID, Fence: job.Fence} }

// hold keeps a job's row locked until the answer is called.
func (r *rig) hold(id int64) (release func()) {
	r.t.Helper()
	conn := r.db.Conn(r.t)
	if _, err := conn.Exec(r.t.Context(), fmt.Sprintf("begin; select from lockstep.job where id = %d for update", id)); err != nil {
		r.t.Fatal(err)
	}
	return func() {
		if _, err := conn.Exec(r.t.Context(), "rollback"); err != nil {
			r.t.Error(err)
		}
	}
}
