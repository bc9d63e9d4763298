package producers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestC51SameKeysInOppositeOrder: two bulk calls of the same keys, one of them
// backwards, while workers finish those jobs.
func TestC51SameKeysInOppositeOrder(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(job *store.NewJob, round, i int){
		"dedupe keys": func(job *store.NewJob, _, i int) { job.DedupeKey = fmt.Sprint(i) },
		"policies": func(job *store.NewJob, _, i int) {
			job.DedupeKey, job.Dedupe, job.OrderingKey = fmt.Sprint(i), policies[i%3], fmt.Sprint(i)
		},
		"idempotency keys": func(job *store.NewJob, round, i int) { job.IdempotencyKey = fmt.Sprint(round, i) },
		"both keys": func(job *store.NewJob, round, i int) {
			job.IdempotencyKey, job.DedupeKey = fmt.Sprint(round, i), fmt.Sprint(i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sameKeys(t, key)
		})
	}
}

func sameKeys(t *testing.T, key func(job *store.NewJob, round, i int)) {
	n, rounds := scaled(100, 1000), scaled(20, 100)
	db := testdb.New(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers, producers errgroup.Group
	for range 2 {
		s := store.New(db.Conn(t))
		workers.Go(func() error { return finishAll(ctx, s) })
	}
	for _, backwards := range []bool{false, true} {
		s := store.New(db.Conn(t))
		producers.Go(func() error {
			for round := range rounds {
				jobs := make([]store.NewJob, n)
				for i := range jobs {
					jobs[i] = store.NewJob{Kind: "k", Payload: i}
					key(&jobs[i], round, i)
				}
				if backwards {
					slices.Reverse(jobs)
				}
				if err := enqueueAll(ctx, s, jobs); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := producers.Wait(); err != nil {
		t.Error(err)
	}
	stop()
	if err := workers.Wait(); err != nil {
		t.Error(err)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.finished_job"); n <= testdb.Value[int](t, db, "select count(distinct coalesce(dedupe_key, '')) from lockstep.finished_job") {
		t.Errorf("the workers finished %d jobs only, so no key was free again", n)
	}
	if n := testdb.Value[int](t, db, "select deadlocks from pg_stat_database where datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

func enqueueAll(ctx context.Context, s *store.Store, jobs []store.NewJob) error {
	answers, err := s.EnqueueMany(ctx, jobs)
	if err != nil {
		return err
	}
	if len(answers) != len(jobs) || slices.ContainsFunc(answers, func(e store.Enqueued) bool { return e.ID == 0 }) {
		return fmt.Errorf("%d answers to %d jobs, or one without an id", len(answers), len(jobs))
	}
	return nil
}

// finishAll claims and completes jobs until the context ends.
func finishAll(ctx context.Context, s *store.Store) error {
	worker := store.NewWorkerID()
	background := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		claimed, err := s.Claim(background, store.ClaimArgs{Worker: worker, Queue: "default", Kinds: []string{"k"}, Max: 20, Lease: time.Minute})
		if err != nil {
			return err
		}
		args := store.FinishArgs{Worker: worker, Lease: time.Minute}
		for _, job := range claimed.Jobs {
			args.Reports = append(args.Reports, store.Finish{Claim: store.Claim{ID: job.ID, Fence: job.Fence}, Outcome: store.Completed})
		}
		if _, err := s.Finish(background, args); err != nil {
			return err
		}
	}
	return nil
}
