package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

func TestClaimAnswersTheWholeJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := full
	now.RunAt, now.Queue = time.Time{}, "default"
	if _, err := r.Enqueue(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	claimed := r.look(10)
	if len(claimed.Jobs) != 1 {
		t.Fatalf("%d jobs", len(claimed.Jobs))
	}
	got := claimed.Jobs[0]
	status := r.status(got.ID)
	want := store.Job{
		ID: status.ID, Fence: status.Fence, Queue: "default", Kind: "k", Tenant: "t", OrderingKey: "o", Priority: -9, Attempt: 1, MaxAttempts: 32767,
		Payload: []byte(`{"n": 1}`), Headers: []byte(`{"trace": "é"}`), CreatedAt: status.CreatedAt, RunAt: status.RunAt, ClaimedAt: status.ClaimedAt,
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(time.Time.Equal)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if status.State != store.StateRunning || status.Worker != r.worker || !status.LeaseUntil.Equal(got.ClaimedAt.Add(lease)) {
		t.Errorf("%+v is not claimed by %v for %v", status, r.worker, lease)
	}
}

// Jobs come by priority and then in their turn, one of a lane.
func TestClaimOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var want []int64
	want = append(want, r.put("a", 2)[0])
	want = append(want, r.put("", 2)...)
	urgent, err := r.Enqueue(t.Context(), store.NewJob{Kind: "k", Priority: 9})
	if err != nil {
		t.Fatal(err)
	}
	want = append([]int64{urgent.ID}, want...)
	var got []int64
	for _, n := range []int{1, 2, 10} {
		for _, job := range r.look(n).Jobs {
			got = append(got, job.ID)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// The facts come with and without jobs.
func TestClaimFacts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	none := r.look(1)
	if none.Jobs != nil || !none.DueAt.IsZero() || !none.LeaseEnd.IsZero() || none.LookAgain != 30*time.Second || none.More || none.Stuck != nil {
		t.Errorf("of an empty queue: %+v", none)
	}
	due, err := r.Enqueue(t.Context(), store.NewJob{Kind: "k", Queue: "other", Delay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	release := r.hold(r.put("", 1)[0])
	facts := r.look(1)
	if !facts.DueAt.Equal(r.status(due.ID).RunAt) || facts.Jobs != nil || !facts.More {
		t.Errorf("with a job due and one locked: %+v", facts)
	}
	release()
	job := r.take()
	if facts := r.look(1); !facts.LeaseEnd.Equal(job.ClaimedAt.Add(lease)) || facts.More {
		t.Errorf("with a job running until %v: %+v", job.ClaimedAt.Add(lease), facts)
	}
}

// A transactional handler that outlives its lease by another one is reported
// as stuck, and can be ended.
func TestStuckHandlerIsReportedAndEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("a", 1)
	job := r.take()
	handler := r.db.Conn(t)
	tx, err := handler.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if held, err := store.New(tx).HoldLane(t.Context(), claim(job)); err != nil || !held {
		t.Fatal(held, err)
	}
	other, err := r.HoldLane(t.Context(), claim(job))
	if err != nil || other {
		t.Errorf("a second holder: %v, %v", other, err)
	}
	r.db.Exec(t, "update lockstep.job set lease_until = clock_timestamp() - lease, held_since = clock_timestamp() - 2 * lease")
	stuck := r.look(1).Stuck
	if len(stuck) != 1 || stuck[0].JobID != job.ID || stuck[0].Fence != job.Fence || stuck[0].PID != int(handler.PgConn().PID()) || stuck[0].Role != "postgres" {
		t.Fatalf("stuck: %+v", stuck)
	}
	wrong := stuck[0]
	wrong.Fence++
	for _, step := range []struct {
		stuck store.Stuck
		ended bool
	}{{wrong, false}, {stuck[0], true}} {
		if ended, err := r.EndStuck(t.Context(), step.stuck); err != nil || ended != step.ended {
			t.Errorf("ending %+v: %v, %v", step.stuck, ended, err)
		}
	}
	if _, err := tx.Exec(t.Context(), "select 1"); err == nil {
		t.Error("the stuck session goes on")
	}
}

// A stuck handler is the same one in every answer, also where the session's time
// zone is one of half hours, for which each decoded time has a location of its own.
func TestStuckIsComparable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.db.Exec(t, "alter database "+r.db.Name+" set timezone = 'Asia/Kolkata'")
	r.Store = store.New(r.db.Conn(t))
	r.put("a", 1)
	job := r.take()
	tx, err := r.db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if held, err := store.New(tx).HoldLane(t.Context(), claim(job)); err != nil || !held {
		t.Fatal(held, err)
	}
	var seen []store.Stuck
	for range 2 {
		r.db.Exec(t, "update lockstep.job set lease_until = clock_timestamp() - lease, held_since = clock_timestamp() - 2 * lease")
		seen = append(seen, r.look(1).Stuck...)
	}
	if len(seen) != 2 || seen[0] != seen[1] || seen[0].BackendStart.IsZero() {
		t.Errorf("two answers name %+v", seen)
	}
}

func TestClaimStateAndAssert(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("a", 2)
	r.put("", 1)
	jobs := r.look(2).Jobs
	keyed, keyless := jobs[0], jobs[1]
	r.expectClaim(keyed, store.ClaimRunning)

	settle := store.FinishArgs{SettleOnly: true}
	if state := r.finish(settle, store.Finish{Claim: claim(keyed), Outcome: store.Completed}).State; state != store.FinishPending {
		t.Errorf("settling a keyed job: %s", state)
	}
	if state := r.finish(settle, store.Finish{Claim: claim(keyless), Outcome: store.Completed}).State; state != store.FinishDone {
		t.Errorf("settling a keyless job: %s", state)
	}
	r.expectClaim(keyed, store.ClaimSettled)
	r.expectClaim(keyless, store.ClaimEnded)
	if state := r.report(keyed, store.Completed); state != store.FinishDone {
		t.Errorf("retiring: %s", state)
	}
	r.expectClaim(keyed, store.ClaimEnded)
	stranger := keyed
	stranger.Fence = 999
	r.expectClaim(stranger, store.ClaimIsLost)
}

// expectClaim compares the claim's state, and what AssertClaim and HoldLane say
// of it.
func (r *rig) expectClaim(job store.Job, want store.ClaimState) {
	r.t.Helper()
	if state, err := r.ClaimState(r.t.Context(), r.worker, claim(job)); err != nil || state != want {
		r.t.Errorf("the claim is %s, %v; want %s", state, err, want)
	}
	err := pgx.BeginFunc(r.t.Context(), r.db.Conn(r.t), func(tx pgx.Tx) error {
		if _, err := store.New(tx).HoldLane(r.t.Context(), claim(job)); err != nil {
			return fmt.Errorf("hold: %w", err)
		}
		return store.New(tx).AssertClaim(r.t.Context(), claim(job))
	})
	if (err == nil) != (want == store.ClaimRunning) || err != nil && !errors.Is(err, store.ErrClaimLost) {
		r.t.Errorf("a %s claim: %v", want, err)
	}
}

// TestTimesThatNoReaderTakes: SQL takes times before the year 1, and zones had
// offsets with seconds once. One such job must not keep a worker from reading
// those that it claimed with it, nor a fleet from counting.
func TestTimesThatNoReaderTakes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.db.Exec(t, `insert into lockstep.job (kind, run_at, created_at) values
		('k', '0044-03-15 BC', '0044-03-14 BC'), ('k', '1800-01-01Z', '12000-01-01Z'), ('k', clock_timestamp(), clock_timestamp())`)
	r.db.Exec(t, "insert into lockstep.job (kind, queue, run_at) values ('k', 'far', '9999-12-31 23:59:59Z')")
	for _, zone := range []string{"Asia/Tokyo", "Europe/Berlin"} {
		conn := r.db.Conn(t)
		if _, err := conn.Exec(t.Context(), "select set_config('TimeZone', $1, false)", zone); err != nil {
			t.Fatal(err)
		}
		if _, err := store.New(conn).CountJobs(t.Context(), 0); err != nil {
			t.Errorf("%s: %v", zone, err)
		}
		claimed, err := store.New(conn).Claim(t.Context(), store.ClaimArgs{Worker: r.worker, Queue: "default", Kinds: []string{"k"}, Max: 10, Lease: time.Second})
		if err != nil || len(claimed.Jobs) != 3 {
			t.Fatalf("%s: %d jobs, %v", zone, len(claimed.Jobs), err)
		}
		if at := claimed.Jobs[1].RunAt; !at.Equal(time.Date(1800, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%s: due at %v", zone, at)
		}
		r.db.Exec(t, "update lockstep.job set lease_until = '-infinity', worker = lockstep.nobody()")
	}
}
