package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// New works on a pool, a connection and a transaction; what it does in one
// goes with it.
func TestNewOn(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	conn := db.Conn(t)
	tx, err := db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, on := range map[string]store.DB{"pool": db.Pool(t), "connection": conn, "transaction": tx} {
		s := store.New(on)
		one, err := s.Enqueue(t.Context(), store.NewJob{Kind: "k"})
		if err != nil || !one.Created {
			t.Errorf("%s: %+v, %v", name, one, err)
		}
		if many, err := s.EnqueueMany(t.Context(), []store.NewJob{{Kind: "k"}, {Kind: "k"}}); err != nil || len(many) != 2 {
			t.Errorf("%s: %+v, %v", name, many, err)
		}
		if _, err := s.Cancel(t.Context(), one.ID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job"); n != 4 {
		t.Errorf("%d jobs, want 4: those of the transaction went with it", n)
	}
}

// A bulk call on a pool commits in parts: what failed midway tells what stands.
func TestEnqueueManyFailsMidway(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, `create function fail() returns trigger language plpgsql as $$ begin raise 'enough'; end $$;
		create trigger fail before insert on lockstep.job for each row when (new.id > 12000) execute function fail()`)
	answers, err := store.New(db.Pool(t)).EnqueueMany(t.Context(), jobsOf("k", 25_000))
	if err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("got %v", err)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job"); n != 10_000 || len(answers) != n {
		t.Errorf("%d jobs stand, %d are told of, want the first part of 10000", n, len(answers))
	}
}

func jobsOf(kind string, n int) []store.NewJob {
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i].Kind = kind
	}
	return jobs
}

func TestIn(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	const schema = `my "jobs"`
	db.Migrate(t, migrations.Config{Schema: schema})
	s := store.New(db.Conn(t))
	if _, err := s.In(schema).Enqueue(t.Context(), store.NewJob{Kind: "there"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{schema: 1, store.DefaultSchema: 0} {
		if stats, err := s.In(name).QueueStats(t.Context()); err != nil || len(stats) != want {
			t.Errorf("%s holds %v, %v", name, stats, err)
		}
	}
}

// A database that defaults to another isolation gets READ COMMITTED from us
// where it must be; a transaction of the caller's is refused.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.db.Exec(t, "alter database "+r.db.Name+" set default_transaction_isolation = '"+level+"'")
			r.Store = store.New(r.db.Pool(t))
			ids := r.put("a", 2) // placed behind, since the snapshot is older than the locks
			if swept, err := r.Sweep(t.Context(), 10, "", nil); err != nil || swept.Promoted != 1 {
				t.Fatal(swept, err)
			}
			job := r.take()
			if state := r.extend(job); state != store.Extended {
				t.Error(state)
			}
			if state := r.report(job, store.Completed); state != store.FinishDone {
				t.Error(state)
			}
			r.expectState(ids[0], store.StateCompleted)
			if _, err := r.Due(t.Context(), 10); err != nil {
				t.Error(err)
			}
			r.expectCancel(ids[1], store.CancelDone)
			err := pgx.BeginFunc(t.Context(), r.db.Conn(t), func(tx pgx.Tx) error {
				_, err := store.New(tx).Due(t.Context(), 10)
				return err
			})
			if !errors.Is(err, store.ErrIsolation) {
				t.Errorf("in a transaction of the caller's: %v", err)
			}
		})
	}
}

// TestCommitErrorUnderOtherIsolation: what is refused as late as at the commit
// of the transaction that asks for the right isolation has its sentinel too.
func TestCommitErrorUnderOtherIsolation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("a", 1)
	id := r.die()
	r.db.Exec(t, "select lockstep.set_limits(entry_timeout => '100 ms')")
	r.db.Exec(t, "alter database "+r.db.Name+" set default_transaction_isolation = 'repeatable read'")
	holder := r.db.Conn(t)
	if _, err := holder.Exec(t.Context(), "begin; select lockstep.try_entry('default', '', 'a')"); err != nil {
		t.Fatal(err)
	}
	_, err := store.New(r.db.Pool(t)).Replay(t.Context(), id)
	var server *pgconn.PgError
	if !errors.Is(err, store.ErrLaneLocked) || !errors.As(err, &server) || server.Code != "LS004" {
		t.Errorf("a replay into a locked lane: %v, want ErrLaneLocked", err)
	}
	r.expectState(id, store.StateDead)
}

// TestErrors: each of our SQLSTATEs has its sentinel, and the server's error
// stays reachable.
func TestErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for code, want := range map[string]error{
		"LS001": store.ErrIsolation, "LS002": store.ErrInvalid, "LS003": store.ErrClaimLost, "LS004": store.ErrLaneLocked,
		"LS005": store.ErrNotFound, "LS006": store.ErrState, "LS007": store.ErrHidden,
	} {
		r.db.Exec(t, `create or replace function lockstep.after_failover() returns void language plpgsql as $$
			begin raise 'what' using errcode = '`+code+`', detail = 'where', hint = 'why', column = 'field'; end $$`)
		err := r.AfterFailover(t.Context())
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "what") {
			t.Errorf("%s became %v, want %v", code, err, want)
		}
		var server *pgconn.PgError
		if !errors.As(err, &server) || server.Code != code {
			t.Errorf("%s: the server's error is out of reach", code)
		}
	}
	r.db.Exec(t, `create or replace function lockstep.after_failover() returns void language sql as 'select 1 / 0'`)
	if err := r.AfterFailover(t.Context()); errors.Is(err, store.ErrInvalid) || err == nil {
		t.Errorf("another's error became %v", err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if _, err := r.Cancel(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
}
