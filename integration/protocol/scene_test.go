package protocol_test

import (
	"context"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// patience is how long a scene waits for what must happen, and for what a lock
// holds up, before it says that it went wrong.
const patience = 6 * time.Second

// scene is a database with sessions in it. What goes wrong in a scene ends it
// with an error instead of failing the test, since on some builds it must.
type scene struct {
	*session // for what needs no session of its own

	t     testing.TB
	db    *testdb.DB
	files fs.FS // what the database was migrated from
}

// wrong ends a scene.
type wrong struct{ error }

// play runs a scene in a database of its own, made from files (nil: those of
// the program), and returns what went wrong.
func play(t testing.TB, files fs.FS, act func(*scene)) (err error) {
	t.Helper()
	s := &scene{t: t, files: files}
	if files == nil {
		s.files, s.db = migrations.Files(), testdb.New(t)
	} else {
		s.db = testdb.NewFrom(t, files)
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case wrong:
			err = r.error
		default:
			panic(r)
		}
	}()
	s.session = s.enter()
	act(s)
	return nil
}

// run is a scene that must go well, as a test.
func run(t *testing.T, act func(*scene)) {
	t.Helper()
	if err := play(t, nil, act); err != nil {
		t.Error(err)
	}
}

// afterwards runs statements when the test has ended, before its database goes.
func (s *scene) afterwards(statements string) {
	s.t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), s.db.URL)
		if err != nil {
			s.t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), statements); err != nil {
			s.t.Errorf("%v\nin: %s", err, statements)
		}
	})
}

// failf ends the scene.
func (s *scene) failf(format string, args ...any) {
	panic(wrong{fmt.Errorf(format, args...)})
}

// want ends the scene if two values differ.
func want[T comparable](what string, got, expected T) {
	if got != expected {
		panic(wrong{fmt.Errorf("%s: got %v, want %v", what, got, expected)})
	}
}

// must ends the scene on an error.
func must(what string, err error) {
	if err != nil {
		panic(wrong{fmt.Errorf("%s: %w", what, err)})
	}
}

// enter opens a session: a connection with a worker's id of its own.
func (s *scene) enter() *session {
	config, err := pgx.ParseConfig(s.db.URL)
	must("the database's URL", err)
	c := &session{t: s.t, worker: store.NewWorkerID()}
	config.OnNotice = c.notice
	c.conn, err = pgx.ConnectConfig(s.t.Context(), config)
	must("connect", err)
	s.t.Cleanup(func() { _ = c.conn.Close(context.Background()) })
	c.store = store.New(c.conn)
	c.exec(fmt.Sprintf("set lock_timeout = %d; set statement_timeout = '20s'", patience.Milliseconds()))
	return c
}

// lane tells where the jobs of a key stand, in the lane's order: "a:r b:w".
func (s *scene) lane(key string) string {
	return value[string](s.session, `
		select coalesce(string_agg((payload ->> 'n') || ':' || case when settled then 'settled' when hold = 'x' then 'blocked' else stage::text end,
		                           ' ' order by stage = 's', lane_turn, id), '')
		from lockstep.job where ordering_key = $1`, key)
}

// expire ends every lease.
func (s *scene) expire() {
	s.exec("update lockstep.job set lease_until = clock_timestamp() - interval '1 ms' where worker <> lockstep.nobody()")
}
