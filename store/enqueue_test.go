package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-pg/lockstep/store"
)

// full is a job that sets everything, and its status once it is there.
var (
	full = store.NewJob{
		Kind: "k", Payload: map[string]int{"n": 1}, Queue: "q", Tenant: "t", OrderingKey: "o", Priority: -9,
		RunAt: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), MaxAttempts: 32767, DedupeKey: "d", Headers: map[string]string{"trace": "é"},
	}
	fullStatus = store.Status{
		State: store.StateScheduled, Queue: "q", Kind: "k", Tenant: "t", OrderingKey: "o", Priority: -9, MaxAttempts: 32767,
		RunAt: full.RunAt, Payload: []byte(`{"n": 1}`), Headers: []byte(`{"trace": "é"}`), WaitingFor: "scheduled for 9999-12-31T23:59:59Z",
	}
	least       = store.NewJob{Kind: "k"}
	leastStatus = store.Status{
		State: store.StateReady, Queue: "default", Kind: "k", MaxAttempts: 12, Payload: []byte(`{}`), Headers: []byte(`{}`),
		WaitingFor: "no live dispatcher handles this kind",
	}
)

func TestEnqueueWritesEveryField(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, test := range []struct {
		job  store.NewJob
		want store.Status
	}{{full, fullStatus}, {least, leastStatus}} {
		one, err := r.Enqueue(t.Context(), test.job)
		if err != nil || !one.Created {
			t.Fatal(one, err)
		}
		test.job.DedupeKey = ""
		many, err := r.EnqueueMany(t.Context(), []store.NewJob{test.job})
		if err != nil || len(many) != 1 || !many[0].Created {
			t.Fatal(many, err)
		}
		for _, id := range []int64{one.ID, many[0].ID} {
			got := r.status(id)
			if age := time.Since(got.CreatedAt); age < -time.Minute || age > time.Minute {
				t.Errorf("created at %v", got.CreatedAt)
			}
			ignored := []string{"ID", "CreatedAt", "Worker"}
			if test.want.RunAt.IsZero() {
				ignored = append(ignored, "RunAt")
			}
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(store.Status{}, ignored...)); diff != "" {
				t.Errorf("job %d: -want +got\n%s", id, diff)
			}
		}
	}
}

// A delay is added to the database's clock, whatever the local one says.
func TestEnqueueDelay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	job := store.NewJob{Kind: "k", Delay: time.Hour + time.Microsecond}
	one, err := r.Enqueue(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	many, err := r.EnqueueMany(t.Context(), []store.NewJob{job})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []int64{one.ID, many[0].ID} {
		status := r.status(id)
		if wait := status.RunAt.Sub(status.CreatedAt); wait < time.Hour-time.Second || wait > time.Hour+time.Second {
			t.Errorf("job %d is due %v after it was created", id, wait)
		}
		r.expectState(id, store.StateScheduled)
	}
}

// The order of a bulk call is the order of its lanes, also across parts and
// with dedupe keys, which are inserted in another order.
func TestEnqueueManyKeepsItsOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	jobs := make([]store.NewJob, 12_345)
	for i := range jobs {
		jobs[i] = store.NewJob{Kind: "k", OrderingKey: "lane", Payload: i, DedupeKey: time.Duration(len(jobs) - i).String()}
	}
	answers, err := r.EnqueueMany(t.Context(), jobs)
	if err != nil || len(answers) != len(jobs) {
		t.Fatal(len(answers), err)
	}
	var disorder int
	err = r.db.Conn(t).QueryRow(t.Context(), `select count(*) from (
		select payload <> to_jsonb(row_number() over (order by lane_turn) - 1) as wrong from lockstep.job) j where wrong`).Scan(&disorder)
	if err != nil || disorder != 0 {
		t.Errorf("%d jobs are out of order (%v)", disorder, err)
	}
}
