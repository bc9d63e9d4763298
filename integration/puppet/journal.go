package puppet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/store"
)

// tables are the journal, and what transactional handlers leave behind.
const tables = `
	create table journal (
		seq     bigint generated always as identity primary key,
		at      timestamptz not null default clock_timestamp(),
		worker  text not null,  -- its name
		pid     integer not null,
		what    text not null,  -- start and end are the handlers', the rest are dispatcher.Event
		job     bigint not null,
		fence   bigint not null,
		attempt integer not null,
		detail  text not null
	);
	create index on journal (job);
	create table effect (job bigint not null, fence bigint not null);`

// warm is how many of the journal's connections are open before the first job,
// so that a handler's first row does not wait for one.
const warm = 4

// journal is a worker's side of the table.
type journal struct {
	name   string
	pool   *pgxpool.Pool
	events chan entry
	work   sync.WaitGroup
}

type entry struct {
	what   string
	job    store.Job
	detail string
}

func openJournal(ctx context.Context, c Config) (*journal, error) {
	config, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = c.Name + " journal"
	config.MaxConns, config.MinConns = 2*warm, warm
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	j := &journal{name: c.Name, pool: pool, events: make(chan entry, 4096)}
	for range warm {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		defer conn.Release()
		if _, err := conn.Exec(ctx, "select from journal limit 0"); err != nil {
			return nil, err
		}
	}
	j.work.Go(func() {
		for e := range j.events {
			j.write(e)
		}
	})
	return j, nil
}

// close writes what events are left. The dispatcher has ended.
func (j *journal) close() {
	close(j.events)
	j.work.Wait()
	j.pool.Close()
}

// event notes what tests ask for. It does not wait for the database.
func (j *journal) event(e dispatcher.Event) {
	detail := e.Reason
	switch e.Type {
	case dispatcher.Looked:
		if e.Jobs == 0 {
			return
		}
		detail = fmt.Sprintf("%d by %v", e.Jobs, e.Wake)
	case dispatcher.Listening, dispatcher.LeaseLost, dispatcher.Ineffective, dispatcher.Wakeless, dispatcher.Holder:
	default:
		return
	}
	j.events <- entry{string(e.Type), store.Job{ID: e.JobID, Fence: e.Fence, Attempt: e.Attempt}, detail}
}

// write inserts a row. While the database is down it goes on trying: a handler
// that can't say that it ended has not ended. Nothing but the end of the
// process ends that.
func (j *journal) write(e entry) {
	for {
		_, err := j.pool.Exec(context.Background(),
			"insert into journal (worker, pid, what, job, fence, attempt, detail) values ($1, $2, $3, $4, $5, $6, $7)",
			j.name, os.Getpid(), e.what, e.job.ID, e.job.Fence, e.job.Attempt, e.detail)
		var refused *pgconn.PgError
		switch {
		case err == nil:
			return
		case errors.As(err, &refused) && refused.Code[:2] != "57" && refused.Code[:2] != "53":
			panic(fmt.Sprintf("the journal refused an entry: %v", err)) // a fault of the test
		}
		time.Sleep(20 * time.Millisecond)
	}
}
