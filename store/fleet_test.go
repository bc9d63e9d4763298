package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

func TestRegister(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	me := store.Registration{Worker: r.worker, Name: "host", Queues: []string{"a", "b"}, Kinds: []string{"k"}, Lease: 5 * time.Second}
	for range 2 { // again is a sign of life
		answer, err := r.Register(t.Context(), me)
		if err != nil || len(answer.QueueHashes) != 2 || answer.QueueHashes[0] == answer.QueueHashes[1] {
			t.Fatal(answer, err)
		}
		if channel, err := r.Channel(t.Context()); err != nil || channel != answer.Channel {
			t.Errorf("the channel is %q and %q, %v", answer.Channel, channel, err)
		}
	}
	if again := r.look(1).LookAgain; again != 5*time.Second {
		t.Errorf("look again after %v, want the shortest lease about", again)
	}
	if err := r.Deregister(t.Context(), r.worker); err != nil {
		t.Fatal(err)
	}
	if again := r.look(1).LookAgain; again != 30*time.Second {
		t.Errorf("look again after %v, want the default lease", again)
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("a", 1)
	var ids []int64
	for _, job := range []store.NewJob{{Kind: "k", Delay: time.Hour}, {Kind: "k", Delay: time.Hour, OrderingKey: "a"}, {Kind: "k", Delay: 2 * time.Hour}} {
		answer, err := r.Enqueue(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, answer.ID)
	}
	r.db.Exec(t, "update lockstep.job set run_at = clock_timestamp() where id = any ($1)", ids[:2])
	moved, err := r.Due(t.Context(), 10)
	if err != nil || moved.Due != 2 || moved.Retired != 0 || moved.Remaining != 0 || !moved.DueAt.Equal(r.status(ids[2]).RunAt) || moved.LookedAt.IsZero() {
		t.Errorf("%+v, %v", moved, err)
	}
	r.expectState(ids[0], store.StateReady)
	r.expectState(ids[1], store.StateWaiting)
	r.expectState(ids[2], store.StateScheduled)
}

// A lane whose head was deleted by hand gets another one.
func TestSweep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var seconds []int64
	for _, key := range []string{"a", "b", "c"} {
		ids := r.put(key, 2)
		r.db.Exec(t, "delete from lockstep.job where id = $1", ids[0])
		seconds = append(seconds, ids[1])
	}
	first, err := r.Sweep(t.Context(), 2, "", nil)
	if err != nil || first.Promoted != 2 || !first.More || cmp.Diff([]string{"default", "", "b"}, first.Cursor) != "" {
		t.Fatalf("%+v, %v", first, err)
	}
	rest, err := r.Sweep(t.Context(), 2, "default", first.Cursor)
	if err != nil || rest.Promoted != 1 || rest.More || rest.Cursor != nil {
		t.Fatalf("%+v, %v", rest, err)
	}
	for _, id := range seconds {
		r.expectState(id, store.StateReady)
	}
}

func TestUpkeep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.put("", 1)[0]
	r.report(r.take(), store.Released)
	r.db.Exec(t, "update lockstep.attempt set ended_at = ended_at - '8 days'::interval")
	r.db.Exec(t, "create table lockstep.finished_job_20200101 partition of lockstep.finished_job for values from ('2020-01-01') to ('2020-01-02')")
	if kept, err := r.Upkeep(t.Context()); err != nil || kept.PartitionsDropped != 1 || kept.AttemptsPurged != 0 || kept.Skipped || kept.More {
		t.Errorf("%+v, %v; want the partition dropped, and the attempt kept for its job", kept, err)
	}
	r.expectCancel(id, store.CancelDone)
	if kept, err := r.Upkeep(t.Context()); err != nil || kept.AttemptsPurged != 1 {
		t.Errorf("%+v, %v; want the attempt purged", kept, err)
	}
}

func TestQueueStats(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("a", 3)
	later, err := r.Enqueue(t.Context(), store.NewJob{Kind: "other", Queue: "q", Delay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.QueueStats(t.Context())
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	if due := r.status(later.ID).RunAt; !got[2].Soonest.Equal(due) || got[2].Oldest.IsZero() {
		t.Errorf("%+v, want one due at %v", got[2], due)
	}
	for i := range got {
		got[i].Soonest, got[i].Oldest = time.Time{}, time.Time{}
	}
	want := []store.QueueStat{
		{Queue: "default", Kind: "k", State: store.StateReady, Jobs: 1},
		{Queue: "default", Kind: "k", State: store.StateWaiting, Jobs: 2},
		{Queue: "q", Kind: "other", State: store.StateScheduled, Jobs: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAfterFailover(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("", 2)
	before := r.look(1).Jobs[0]
	turn := testdb.Value[int64](t, r.db, "select max(turn) from lockstep.job")
	if err := r.AfterFailover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := r.take(); after.Fence < before.Fence+1_000_000_000 {
		t.Errorf("fence %d after %d", after.Fence, before.Fence)
	}
	r.put("", 1)
	if next := testdb.Value[int64](t, r.db, "select max(turn) from lockstep.job"); next < turn+1_000_000_000 {
		t.Errorf("turn %d after %d", next, turn)
	}
}
