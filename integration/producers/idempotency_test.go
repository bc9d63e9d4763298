package producers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

var idempotent = store.NewJob{
	Kind: "k", Queue: "q", Tenant: "t", OrderingKey: "o", Priority: 2, IdempotencyKey: "key",
	Payload: json.RawMessage(`{"a": 1, "b": [2.50]}`), RunAt: time.Date(2030, 1, 31, 12, 0, 0, 123456789, time.UTC),
}

// TestTheSameRequest: what makes two requests the same one, by the single call
// and by the bulk call.
func TestTheSameRequest(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	s := store.New(db.Conn(t))
	first, err := s.Enqueue(t.Context(), idempotent)
	if err != nil || !first.Created {
		t.Fatal(first, err)
	}
	for name, c := range map[string]struct {
		change func(*store.NewJob)
		same   bool
	}{
		"the same":          {func(*store.NewJob) {}, true},
		"payload's spacing": {func(j *store.NewJob) { j.Payload = json.RawMessage(`{"b":[2.50],"a":1}`) }, true},
		"due time's zone":   {func(j *store.NewJob) { j.RunAt = j.RunAt.In(time.FixedZone("", 3600)) }, true},
		"headers":           {func(j *store.NewJob) { j.Headers = map[string]string{"trace": "2"} }, true},
		"max attempts":      {func(j *store.NewJob) { j.MaxAttempts = 3 }, true},
		"dedupe key":        {func(j *store.NewJob) { j.DedupeKey, j.Dedupe = "d", store.DedupeReplace }, true},
		"kind":              {func(j *store.NewJob) { j.Kind = "l" }, false},
		"queue":             {func(j *store.NewJob) { j.Queue = "r" }, false},
		"ordering key":      {func(j *store.NewJob) { j.OrderingKey = "" }, false},
		"priority":          {func(j *store.NewJob) { j.Priority = 3 }, false},
		"payload":           {func(j *store.NewJob) { j.Payload = json.RawMessage(`{"a": 1, "b": [2.5]}`) }, false},
		"due time":          {func(j *store.NewJob) { j.RunAt = j.RunAt.Add(time.Microsecond) }, false},
		"delay":             {func(j *store.NewJob) { j.RunAt, j.Delay = time.Time{}, time.Hour }, false},
		"due now":           {func(j *store.NewJob) { j.RunAt = time.Time{} }, false},
	} {
		job := idempotent
		c.change(&job)
		one, err := s.Enqueue(t.Context(), job)
		expectSame(t, name, one, err, first.ID, c.same, 0)
		many, err := s.EnqueueMany(t.Context(), []store.NewJob{{Kind: "other"}, job})
		expectSame(t, name+" in bulk", append(many, store.Enqueued{}, store.Enqueued{})[1], err, first.ID, c.same, 2)
	}
	if other := idempotent; true {
		other.Tenant = "another"
		if answer, err := s.Enqueue(t.Context(), other); err != nil || !answer.Created {
			t.Errorf("another tenant: %+v, %v", answer, err)
		}
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job where kind <> 'other'"); n != 2 {
		t.Errorf("%d jobs are there, want 2", n)
	}
}

func expectSame(t *testing.T, name string, answer store.Enqueued, err error, id int64, same bool, ordinal int) {
	t.Helper()
	var field *store.FieldError
	switch {
	case same && (err != nil || answer != store.Enqueued{ID: id, Outcome: store.EnqueueRepeated}):
		t.Errorf("%s: %+v, %v; want job %d again", name, answer, err, id)
	case !same && (!errors.Is(err, store.ErrKeyReused) || errors.Is(err, store.ErrInvalid) || !errors.As(err, &field) ||
		field.Field != "idempotency_key" || field.Ordinal != ordinal):
		t.Errorf("%s: %+v, %v; want ErrKeyReused", name, answer, err)
	}
}

// TestFiftyRequestsMakeOneJob: of fifty at once, half of them in bulk calls.
func TestFiftyRequestsMakeOneJob(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	var (
		group   errgroup.Group
		mu      sync.Mutex
		created int
		ids     []int64
	)
	for i := range 50 {
		s := store.New(db.Conn(t))
		group.Go(func() error {
			answers := make([]store.Enqueued, 1)
			var err error
			if i%2 == 0 {
				answers[0], err = s.Enqueue(t.Context(), idempotent)
			} else {
				answers, err = s.EnqueueMany(t.Context(), []store.NewJob{idempotent, idempotent})
			}
			mu.Lock()
			defer mu.Unlock()
			for _, answer := range answers {
				ids = append(ids, answer.ID)
				if answer.Created {
					created++
				}
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); created != 1 || len(ids) != 1 {
		t.Errorf("%d were told that the job is new; ids are %d", created, ids)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job"); n != 1 {
		t.Errorf("%d jobs are there", n)
	}
}

// TestARollbackFreesTheKey, also for one that waits for it.
func TestARollbackFreesTheKey(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	first, second := newClient(t, db), newClient(t, db)
	first.do("begin; select lockstep.enqueue('first', idempotency_key => 'key')")
	call := second.start("select lockstep.enqueue('second', idempotency_key => 'key')")
	second.blocked(db, call)
	first.do("rollback")
	if err := call.wait(); err != nil {
		t.Fatal(err)
	}
	if kind := testdb.Value[string](t, db, "select string_agg(kind, ' ') from lockstep.job"); kind != "second" {
		t.Errorf("jobs are %q", kind)
	}
}

// TestAKeyIsKept while it is kept, whatever becomes of its job; upkeep deletes
// those past their time, page by page, and one not deleted yet counts as new.
func TestAKeyIsKept(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	s := store.New(db.Conn(t))
	d := &deduper{t: t, db: db, s: s, worker: store.NewWorkerID()}
	job := store.NewJob{Kind: "k", IdempotencyKey: "key"}
	for _, outcome := range []store.Outcome{store.Completed, store.Dead} {
		job.IdempotencyKey = string(outcome)
		first, err := s.Enqueue(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		d.finish(d.claim(), outcome, 0)
		again, err := s.Enqueue(t.Context(), job)
		expectSame(t, string(outcome), again, err, first.ID, true, 0)
	}
	db.Exec(t, "update lockstep.idempotency set created_at = clock_timestamp() - interval '8 days'")
	if kept, err := s.Upkeep(t.Context()); err != nil || kept.KeysPurged != 2 {
		t.Errorf("upkeep: %+v, %v", kept, err)
	}
	db.Exec(t, "insert into lockstep.idempotency (tenant, key, job_id, digest, created_at) select '', i, i, '', '2020-01-01' from generate_series(1, 5003) i")
	for _, bulk := range []bool{false, true} { // past its time, and not purged yet
		answers := make([]store.Enqueued, 1)
		var err error
		job.IdempotencyKey = map[bool]string{false: "1", true: "2"}[bulk]
		if bulk {
			answers, err = s.EnqueueMany(t.Context(), []store.NewJob{job})
		} else {
			answers[0], err = s.Enqueue(t.Context(), job)
		}
		if err != nil || !answers[0].Created {
			t.Errorf("an old key, bulk %v: %+v, %v", bulk, answers, err)
		}
	}
	kept, err := s.Upkeep(t.Context())
	if err != nil || kept.KeysPurged != 5000 || !kept.More {
		t.Errorf("upkeep: %+v, %v", kept, err)
	}
	if kept, err = s.Upkeep(t.Context()); err != nil || kept.KeysPurged != 1 || kept.More {
		t.Errorf("upkeep: %+v, %v", kept, err)
	}
	db.Exec(t, "select lockstep.set_limits(idempotency_retention => '0')")
	if answer, err := s.Enqueue(t.Context(), job); err != nil || !answer.Created {
		t.Errorf("kept for no time: %+v, %v", answer, err)
	}
}

// TestBothKeys: a request with both keys is answered with the job of its dedupe
// key, and so is its repetition.
func TestBothKeys(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	s := store.New(db.Conn(t))
	there, err := s.Enqueue(t.Context(), store.NewJob{Kind: "k", DedupeKey: "d"})
	if err != nil {
		t.Fatal(err)
	}
	job := store.NewJob{Kind: "k", DedupeKey: "d", IdempotencyKey: "one"}
	answer, err := s.Enqueue(t.Context(), job)
	if err != nil || answer != (store.Enqueued{ID: there.ID, Outcome: store.EnqueueExisting}) {
		t.Errorf("first: %+v, %v", answer, err)
	}
	answer, err = s.Enqueue(t.Context(), job)
	expectSame(t, "repeated", answer, err, there.ID, true, 0)
	job.IdempotencyKey = "many"
	want := []store.Enqueued{{ID: there.ID, Outcome: store.EnqueueExisting}, {ID: there.ID, Outcome: store.EnqueueRepeated}}
	if many, err := s.EnqueueMany(t.Context(), []store.NewJob{job, job}); err != nil || !slices.Equal(many, want) {
		t.Errorf("in bulk: %+v, %v; want %+v", many, err, want)
	}
	answer, err = s.Enqueue(t.Context(), job)
	expectSame(t, "repeated from a bulk", answer, err, there.ID, true, 0)
}

// C61 with idempotency keys: any number in one call, and again in another.
func TestC61WithIdempotencyKeys(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 6_554, scaled(20_000, 100_000)} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			db := testdb.New(t)
			jobs := make([]store.NewJob, n)
			for i := range jobs {
				jobs[i] = store.NewJob{Kind: "k", Payload: i, IdempotencyKey: fmt.Sprint(i)}
			}
			enqueue := func() (answers []store.Enqueued) {
				err := pgx.BeginFunc(t.Context(), db.Conn(t), func(tx pgx.Tx) (err error) {
					answers, err = store.New(tx).EnqueueMany(t.Context(), jobs)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return answers
			}
			first := enqueue()
			expectAnswers(t, db, first, n)
			for i, again := range enqueue() {
				if again != (store.Enqueued{ID: first[i].ID, Outcome: store.EnqueueRepeated}) {
					t.Fatalf("job %d again: %+v, want job %d", i+1, again, first[i].ID)
				}
			}
		})
	}
}
