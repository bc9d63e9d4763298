package producers_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// bulkKeys is how many lanes a bulk enters, 100,000 in full; singles is how many
// producers of single jobs there are beside it, in the same queue.
var bulkKeys = scaled(20_000, 100_000)

const singles = 20

// Beside a bulk nobody sees an error, and nobody waits longer than the bulk's
// own commit.
func TestBulkByEnqueueManyBesideSingles(t *testing.T) {
	t.Parallel()
	besideSingles(t, func(ctx context.Context, tx pgx.Tx) error {
		jobs := make([]store.NewJob, bulkKeys)
		for i := range jobs {
			jobs[i] = store.NewJob{Kind: "k", OrderingKey: fmt.Sprint("bulk ", i)}
		}
		_, err := store.New(tx).EnqueueMany(ctx, jobs)
		return err
	})
}

func TestBulkByCopyBesideSingles(t *testing.T) {
	t.Parallel()
	besideSingles(t, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"lockstep", "job"}, []string{"kind", "ordering_key"},
			pgx.CopyFromSlice(bulkKeys, func(i int) ([]any, error) { return []any{"k", fmt.Sprint("bulk ", i)}, nil }))
		return err
	})
}

// besideSingles runs a bulk transaction beside single producers.
func besideSingles(t *testing.T, bulk func(context.Context, pgx.Tx) error) {
	db := testdb.New(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var (
		group   errgroup.Group
		count   atomic.Int64
		longest [singles]time.Duration
	)
	for i := range singles {
		c := newClient(t, db)
		group.Go(func() error {
			for n := 0; ctx.Err() == nil; n++ {
				took, err := c.timed("insert into lockstep.job (kind, ordering_key) values ('single', $1)", fmt.Sprint(i, n%50))
				if err != nil {
					return err
				}
				longest[i] = max(longest[i], took)
				count.Add(1)
			}
			return nil
		})
	}
	commit, err := timedCommit(ctx, db.Conn(t), bulk)
	if err != nil {
		t.Error(err)
	}
	stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	worst := time.Duration(0)
	for _, d := range longest {
		worst = max(worst, d)
	}
	t.Logf("the commit took %v; of %d single inserts the longest took %v", commit, count.Load(), worst)
	if worst > commit+time.Second {
		t.Errorf("a single insert took %v, the bulk's commit %v", worst, commit)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job where stage = 'r' and kind = 'k'"); n != bulkKeys {
		t.Errorf("%d of %d lanes have their head", n, bulkKeys)
	}
}

func timedCommit(ctx context.Context, conn *pgx.Conn, fill func(context.Context, pgx.Tx) error) (time.Duration, error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := fill(ctx, tx); err != nil {
		return 0, err
	}
	start := time.Now()
	err = tx.Commit(ctx)
	return time.Since(start), err
}
