package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/store"
)

const (
	producerPause = 90 * time.Millisecond // between transactions, at most
	crowd         = 300                   // pending jobs at which producers slow down
	// callLimit bounds a producer's calls. A commit gives up on a lane after 10 s.
	callLimit = 15 * time.Second
)

// producer is a service that enqueues jobs, one transaction after the other.
type producer struct {
	actorConfig
	draw    *rand.Rand
	witness *teller
	conn    *pgx.Conn // nil: to be opened
	count   int
}

func produce(ctx context.Context, args []string) error {
	config, err := actorFrom(args)
	if err != nil {
		return err
	}
	witness, err := tellTo(config.Witness)
	if err != nil {
		return err
	}
	defer witness.Close()
	p := &producer{actorConfig: config, draw: rand.New(rand.NewPCG(config.Seed, 0)), witness: witness}
	fmt.Println(ready)
	for ctx.Err() == nil {
		p.turn()
		pause(ctx, time.Duration(p.draw.Int64N(int64(producerPause))))
	}
	if p.conn != nil {
		return p.conn.Close(context.Background())
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// turn is one transaction, whatever the database does meanwhile.
func (p *producer) turn() {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	if err := p.connect(ctx); err != nil {
		time.Sleep(50 * time.Millisecond)
		return
	}
	p.count++
	id := fmt.Sprintf("%s-%d", p.Name, p.count)
	pending := tell[string, int](p.witness, "Begin", id)
	if pending > crowd {
		time.Sleep(time.Duration(pending) * time.Millisecond)
	}
	var s Settled
	if p.draw.IntN(100) < 40 {
		s = p.single(ctx, id)
	} else {
		s = p.transaction(ctx, id)
	}
	if p.conn.IsClosed() {
		p.conn = nil
	}
	tell[Settled, int](p.witness, "Settle", s)
}

func (p *producer) connect(ctx context.Context) (err error) {
	if p.conn == nil {
		p.conn, err = pgx.Connect(ctx, p.URL)
	}
	return err
}

// single enqueues one job by one statement, which is a transaction of its own.
func (p *producer) single(ctx context.Context, id string) Settled {
	job := p.job(id, 0)
	tell[Committing, int](p.witness, "Commit", Committing{id, []Job{job}})
	enqueued, err := store.New(p.conn).Enqueue(ctx, job.request())
	return Settled{ID: id, Fate: fateAfter(err), JobID: enqueued.ID}
}

// transaction enqueues a few jobs, some of which a savepoint takes back.
func (p *producer) transaction(ctx context.Context, id string) Settled {
	tx, err := p.conn.Begin(ctx)
	if err != nil {
		return Settled{ID: id, Fate: rolledBack}
	}
	defer func() { _ = tx.Rollback(ctx) }()
	var jobs []Job
	for place := range 1 + p.draw.IntN(4) {
		if p.draw.IntN(10) == 0 {
			if err := p.takeBack(ctx, tx, id, place); err != nil {
				return Settled{ID: id, Fate: rolledBack}
			}
		}
		job := p.job(id, place)
		enqueued, err := store.New(tx).Enqueue(ctx, job.request())
		if err != nil {
			return Settled{ID: id, Fate: rolledBack}
		}
		job.ID = enqueued.ID
		jobs = append(jobs, job)
	}
	if p.draw.IntN(10) == 0 {
		return Settled{ID: id, Fate: rolledBack}
	}
	tell[Committing, int](p.witness, "Commit", Committing{id, jobs})
	return Settled{ID: id, Fate: fateAfter(tx.Commit(ctx))}
}

// takeBack enqueues a job that must never run.
func (p *producer) takeBack(ctx context.Context, tx pgx.Tx, id string, place int) error {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	job := p.job(id+"/undone", place)
	if _, err := store.New(savepoint).Enqueue(ctx, job.request()); err != nil {
		return err
	}
	return savepoint.Rollback(ctx)
}

// fateAfter is what a client knows of a commit that came back with err: that it
// failed, only if a server said so which went on.
func fateAfter(err error) Fate {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return committed
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return rolledBack
	case errors.As(err, &refused) && refused.SeverityUnlocalized == "ERROR":
		return rolledBack
	default:
		return doubtful
	}
}

// job draws one.
func (p *producer) job(transaction string, place int) Job {
	job := Job{Lane: Lane{Queue: skipQueue}, InTx: p.draw.IntN(4) == 0}
	if p.draw.IntN(3) == 0 {
		job.Lane.Queue = blockQueue
	}
	job.Marker = fmt.Sprintf("%s/%d", transaction, place)
	job.Lane.Key = job.Marker
	if p.draw.IntN(100) < 70 {
		job.Lane.Key = fmt.Sprint("lane ", p.draw.IntN(lanes))
	}
	if p.draw.IntN(8) == 0 {
		job.Delay = time.Duration(100+p.draw.IntN(1500)) * time.Millisecond
	}
	job.Work = time.Duration(p.draw.IntN(30)) * time.Millisecond
	if p.draw.IntN(4) == 0 {
		job.Work = time.Duration(200+p.draw.IntN(800)) * time.Millisecond
	}
	job.Pause = time.Duration(50+p.draw.IntN(300)) * time.Millisecond
	switch n := p.draw.IntN(100); {
	case n < 8:
		job.Fails = 1 + p.draw.IntN(2)
	case n < 12:
		job.Snoozes = 1
	case n < 14:
		job.Dies = true
	}
	job.Stubborn = !job.InTx && p.draw.IntN(8) == 0
	return job
}

// keyed tells whether the job has an ordering key.
func (j Job) keyed() bool { return j.Lane.Key != j.Marker }

// request is the job as Lockstep is asked for it. So many attempts that none is
// dead because its workers were.
func (j Job) request() store.NewJob {
	request := store.NewJob{
		Kind: kindPlain, Queue: j.Lane.Queue, Delay: j.Delay, Payload: j.Script, MaxAttempts: 30000,
	}
	if j.InTx {
		request.Kind = kindTx
	}
	if j.keyed() {
		request.OrderingKey = j.Lane.Key
	}
	return request
}
