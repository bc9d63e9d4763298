package producers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// C61: any number of jobs in one call, answered in their order; in a
// transaction with one signal.
func TestC61EnqueueManyOfAnySize(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 5_000, 6_554, 65_536, 100_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			db := testdb.New(t)
			listener := newClient(t, db)
			listener.listen("lockstep")
			jobs := make([]store.NewJob, n)
			for i := range jobs {
				jobs[i] = store.NewJob{Kind: "k", Payload: i}
			}
			var answers []store.Enqueued
			err := pgx.BeginFunc(t.Context(), db.Conn(t), func(tx pgx.Tx) (err error) {
				answers, err = store.New(tx).EnqueueMany(t.Context(), jobs)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			expectAnswers(t, db, answers, n)
			if heard := listener.heard(); heard != min(n, 1) {
				t.Errorf("%d signals, want %d", heard, min(n, 1))
			}
		})
	}
}

// expectAnswers wants n new jobs whose payload is their place.
func expectAnswers(t *testing.T, db *testdb.DB, answers []store.Enqueued, n int) {
	t.Helper()
	if len(answers) != n {
		t.Fatalf("%d answers to %d jobs", len(answers), n)
	}
	ids := make([]int64, n)
	for i, answer := range answers {
		if ids[i] = answer.ID; !answer.Created {
			t.Fatalf("job %d is not new", i+1)
		}
	}
	matching := testdb.Value[int](t, db, `select count(*) from unnest($1::bigint[]) with ordinality u(id, n)
		join lockstep.job j on j.id = u.id and j.payload = to_jsonb(u.n - 1)`, ids)
	if all := testdb.Value[int](t, db, "select count(*) from lockstep.job"); matching != n || all != n {
		t.Errorf("of %d jobs %d are there, %d at their place", n, all, matching)
	}
}

// C56: every digit of a number comes back, by every way in and out. jsonb
// spells exponents out.
func TestC56Digits(t *testing.T) {
	t.Parallel()
	const payload = `{"a": 9223372036854775807, "b": 9007199254740993, "c": 0.1, "d": 1.0, "e": 1e400}`
	want := strings.Replace(payload, "1e400", "1"+strings.Repeat("0", 400), 1)
	db := testdb.New(t)
	s := store.New(db.Conn(t))
	if _, err := s.Enqueue(t.Context(), store.NewJob{Kind: "k", Payload: json.RawMessage(payload)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnqueueMany(t.Context(), []store.NewJob{{Kind: "k", Payload: json.RawMessage(payload)}}); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "insert into lockstep.job (kind, payload) values ('k', $1::text::jsonb)", payload)
	claimed, err := s.Claim(t.Context(), store.ClaimArgs{Worker: store.NewWorkerID(), Queue: "default", Kinds: []string{"k"}, Max: 3, Lease: time.Minute})
	if err != nil || len(claimed.Jobs) != 3 {
		t.Fatal(claimed, err)
	}
	for _, job := range claimed.Jobs {
		status, err := s.JobStatus(t.Context(), job.ID)
		if string(job.Payload) != want || err != nil || string(status.Payload) != want {
			t.Errorf("job %d came back as %s and %s, want %s (%v)", job.ID, job.Payload, status.Payload, want, err)
		}
	}
}

// C59: the limit is exact, and can be raised, also for sessions that are there.
func TestC59PayloadLimit(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	s := store.New(db.Conn(t))
	enqueue := func(bytes int) error {
		_, err := s.Enqueue(t.Context(), store.NewJob{Kind: "k", Payload: strings.Repeat("x", bytes-2)})
		return err
	}
	if err := enqueue(1 << 20); err != nil {
		t.Error(err)
	}
	expectField(t, "one byte more", enqueue(1<<20+1), "payload", "at most 1048576", 0)
	db.Exec(t, "select lockstep.set_limits(payload_bytes => 10000000)")
	if err := enqueue(10_000_000); err != nil {
		t.Error(err)
	}
	expectField(t, "one byte more", enqueue(10_000_001), "payload", "at most 10000000", 0)
}
