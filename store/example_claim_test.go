package store_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// A worker is paused for longer than its lease, another one takes its job, and
// when the first wakes up it can't write any more. docs/fencing.md tells it in
// words.
func ExampleStore_AssertClaim() {
	ctx := context.Background()
	pool, stop := exampleDatabase(ctx)
	defer stop()
	exampleMust(pool.Exec(ctx, "create table payment (job bigint, paid_by text)"))
	exampleMust(store.New(pool).Enqueue(ctx, store.NewJob{Kind: "invoice.pay", OrderingKey: "account-7"}))

	first := &exampleWorker{pool: pool, id: store.NewWorkerID()}
	second := &exampleWorker{pool: pool, id: store.NewWorkerID()}

	// pay writes the effect of a job, if the job is still the worker's.
	pay := func(job store.Job, worker string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := store.New(tx).AssertClaim(ctx, store.Claim{ID: job.ID, Fence: job.Fence}); err != nil {
				return err // rolls back
			}
			_, err := tx.Exec(ctx, "insert into payment (job, paid_by) values ($1, $2)", job.ID, worker)
			return err
		})
	}

	job := first.claim(ctx)[0]
	// Now the first worker is paused, and its lease ends.
	again := second.claimAfterLease(ctx)
	fmt.Println("the second worker pays:", pay(again, "second"))
	fmt.Println("the fence has grown:", again.Fence > job.Fence)

	err := pay(job, "first") // it wakes up
	fmt.Println("the first worker has lost its claim:", errors.Is(err, store.ErrClaimLost))

	var paid int
	exampleScan(pool.QueryRow(ctx, "select count(*) from payment"), &paid)
	fmt.Println("payments:", paid)
	// Output:
	// the second worker pays: <nil>
	// the fence has grown: true
	// the first worker has lost its claim: true
	// payments: 1
}

// While a transaction that asserted its claim is open, heartbeats go on, and
// nobody can take the job, though its lease has ended.
func ExampleStore_AssertClaim_openTransaction() {
	ctx := context.Background()
	pool, stop := exampleDatabase(ctx)
	defer stop()
	exampleMust(store.New(pool).Enqueue(ctx, store.NewJob{Kind: "invoice.pay", OrderingKey: "account-7"}))

	first := &exampleWorker{pool: pool, id: store.NewWorkerID()}
	second := &exampleWorker{pool: pool, id: store.NewWorkerID()}
	job := first.claim(ctx)[0]
	claim := store.Claim{ID: job.ID, Fence: job.Fence}

	tx := exampleMust(pool.Begin(ctx))
	fmt.Println("the claim holds:", store.New(tx).AssertClaim(ctx, claim))

	states := exampleMust(store.New(pool).Extend(ctx, first.id, []store.Claim{claim}, exampleLease))
	fmt.Println("a heartbeat is answered:", states[job.ID])

	time.Sleep(exampleLease) // no more heartbeats: the lease ends
	fmt.Println("jobs for the second worker:", len(second.claim(ctx)))

	fmt.Println("the transaction commits:", tx.Commit(ctx))
	fmt.Println("now the second worker gets it:", second.claimAfterLease(ctx).ID == job.ID)
	// Output:
	// the claim holds: <nil>
	// a heartbeat is answered: extended
	// jobs for the second worker: 0
	// the transaction commits: <nil>
	// now the second worker gets it: true
}

// exampleLease is the shortest there is, so that the examples take no longer.
const exampleLease = time.Second

// exampleWorker claims jobs for a while and sends no heartbeats.
type exampleWorker struct {
	pool *pgxpool.Pool
	id   store.WorkerID
}

func (w *exampleWorker) claim(ctx context.Context) []store.Job {
	return w.look(ctx).Jobs
}

func (w *exampleWorker) look(ctx context.Context) store.Claimed {
	return exampleMust(store.New(w.pool).Claim(ctx, store.ClaimArgs{
		Worker: w.id, Queue: "default", Kinds: []string{"invoice.pay"}, Max: 1, Lease: exampleLease,
	}))
}

// claimAfterLease claims the job of a worker that went away. It looks when the
// database says that the lease ends, as a dispatcher does.
func (w *exampleWorker) claimAfterLease(ctx context.Context) store.Job {
	for {
		claimed := w.look(ctx)
		if len(claimed.Jobs) > 0 {
			return claimed.Jobs[0]
		}
		time.Sleep(max(claimed.LeaseEnd.Sub(claimed.LookedAt), time.Millisecond))
	}
}

// exampleDatabase is a private server with a migrated database.
func exampleDatabase(ctx context.Context) (pool *pgxpool.Pool, stop func()) {
	server := exampleMust(postgres.Start(ctx, postgres.Config{}))
	pool = exampleMust(pgxpool.New(ctx, server.URL("postgres")))
	conn := exampleMust(pool.Acquire(ctx))
	exampleMust(migrations.Up(ctx, conn.Conn(), migrations.Config{}))
	conn.Release()
	return pool, func() {
		pool.Close()
		_ = server.Close()
	}
}

func exampleMust[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func exampleScan(row pgx.Row, into ...any) {
	if err := row.Scan(into...); err != nil {
		panic(err)
	}
}
