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

// TestSameKeysInOppositeOrder (C51): two bulk calls of the same dedupe keys, one
// of them backwards, while workers finish those jobs; 100 rounds.
func TestSameKeysInOppositeOrder(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers, producers errgroup.Group
	for range 2 {
		s := store.New(db.Conn(t))
		workers.Go(func() error { return finishAll(ctx, s) })
	}
	forwards := make([]store.NewJob, scaled(200, 1000))
	for i := range forwards {
		forwards[i] = store.NewJob{Kind: "k", DedupeKey: fmt.Sprint(i), Payload: i}
	}
	backwards := slices.Clone(forwards)
	slices.Reverse(backwards)
	for _, jobs := range [][]store.NewJob{forwards, backwards} {
		s := store.New(db.Conn(t))
		producers.Go(func() error { return enqueueRounds(ctx, s, jobs, 100) })
	}
	if err := producers.Wait(); err != nil {
		t.Error(err)
	}
	stop()
	if err := workers.Wait(); err != nil {
		t.Error(err)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.finished_job"); n <= len(forwards) {
		t.Errorf("the workers finished %d jobs only, so no key was free again", n)
	}
	if n := testdb.Value[int](t, db, "select deadlocks from pg_stat_database where datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

func enqueueRounds(ctx context.Context, s *store.Store, jobs []store.NewJob, rounds int) error {
	for range rounds {
		answers, err := s.EnqueueMany(ctx, jobs)
		if err != nil {
			return err
		}
		if len(answers) != len(jobs) || slices.ContainsFunc(answers, func(e store.Enqueued) bool { return e.ID == 0 }) {
			return fmt.Errorf("%d answers to %d jobs, or one without an id", len(answers), len(jobs))
		}
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
