package model_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// stage is the database with the sessions that all runs of a check use.
type stage struct {
	db       *testdb.DB
	conn     *pgx.Conn // for what is a transaction of its own
	sessions []*session
	workers  []store.WorkerID
	wrong    string // what ended a run
}

// session is where a transaction may be open.
type session struct {
	name string
	conn *pgx.Conn
	tx   *transaction // nil: none
}

// world is one run: the model beside the database.
type world struct {
	*model
	*stage
	t *rapid.T
}

func newStage(t testing.TB, db *testdb.DB) *stage {
	s := &stage{db: db, conn: patient(t, db), workers: []store.WorkerID{store.NewWorkerID(), store.NewWorkerID()}}
	for _, name := range []string{"P", "Q", "R"} {
		s.sessions = append(s.sessions, &session{name: name, conn: patient(t, db)})
	}
	return s
}

// patient is a connection on which nothing waits for long: nobody goes on
// meanwhile, so who waits, waits for ever.
func patient(t testing.TB, db *testdb.DB) *pgx.Conn {
	conn := db.Conn(t)
	if _, err := conn.Exec(t.Context(), "set lock_timeout = '5s'; set statement_timeout = '20s'"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// enter begins a run with an empty queue.
func (s *stage) enter(t *rapid.T) *world {
	for _, session := range s.sessions {
		session.tx = nil
		_, err := session.conn.Exec(context.Background(), "rollback")
		s.must(t, "rollback", err)
	}
	_, err := s.conn.Exec(context.Background(), `
		delete from lockstep.job; delete from lockstep.finished_job; delete from lockstep.dead_job; delete from lockstep.attempt;
		alter table lockstep.job alter id restart;
		select lockstep.set_queue('skips', on_dead => 'skip', backoff_base => '1 day', backoff_cap => '1 day');
		select lockstep.set_queue('blocks', on_dead => 'block', backoff_base => '1 day', backoff_cap => '1 day')`)
	s.must(t, "emptying the queue", err)
	m := newModel()
	s.must(t, "the fence", s.conn.QueryRow(context.Background(), "select lockstep.next_fence()").Scan(&m.fence))
	return &world{model: m, stage: s, t: t}
}

// failf ends a run.
func (s *stage) failf(t *rapid.T, format string, args ...any) {
	s.wrong = fmt.Sprintf(format, args...)
	t.Fatal(s.wrong)
}

func (s *stage) must(t *rapid.T, what string, err error) {
	if err != nil {
		s.failf(t, "%s: %v", what, err)
	}
}

// must ends the run on an error.
func (w *world) must(what string, err error) { w.stage.must(w.t, what, err) }

// exec runs a statement that must succeed.
func (w *world) exec(conn *pgx.Conn, sql string, args ...any) {
	_, err := conn.Exec(context.Background(), sql, args...)
	w.must(sql, err)
}

// ask is the text that a statement answers, or the code of one of our errors.
func (w *world) ask(conn *pgx.Conn, sql string, args ...any) string {
	var (
		answer string
		ours   *pgconn.PgError
	)
	err := conn.QueryRow(context.Background(), sql, args...).Scan(&answer)
	if errors.As(err, &ours) && len(ours.Code) == 5 && ours.Code[:2] == "LS" {
		return ours.Code
	}
	w.must(sql, err)
	return answer
}

// agree ends the run if the database answers otherwise than the model.
func agree[T comparable](w *world, what string, database, model T) {
	if database != model {
		w.failf(w.t, "%s: the database answers %v, the model %v", what, database, model)
	}
}
