package dispatcher_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/store"
)

// frozen claims a job for a worker with a lease of a second, and holds its run
// lock in a session that then does nothing.
func (r *rig) frozen() (id int64, session *pgx.Conn) {
	r.Helper()
	id = r.enqueue(store.NewJob{Kind: "k", OrderingKey: "a"})[0]
	s, worker := store.New(r.pool), store.NewWorkerID()
	kinds, queues := []string{"k"}, []string{"default"}
	if _, err := s.Register(r.Context(), store.Registration{Worker: worker, Name: "frozen", Queues: queues, Kinds: kinds, Lease: time.Second}); err != nil {
		r.Fatal(err)
	}
	claimed, err := s.Claim(r.Context(), store.ClaimArgs{Worker: worker, Queue: "default", Kinds: kinds, Max: 1, Lease: time.Second})
	if err != nil || len(claimed.Jobs) != 1 {
		r.Fatal(claimed, err)
	}
	session = r.db.Conn(r)
	tx, err := session.Begin(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	held, err := store.New(tx).HoldLane(r.Context(), store.Claim{ID: id, Fence: claimed.Jobs[0].Fence})
	if err != nil || !held {
		r.Fatal(held, err)
	}
	return id, session
}

// TestStuckHolderIsEnded: a transactional handler whose process is frozen gives
// its lane up after two leases.
func TestStuckHolderIsEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id, session := r.frozen()
	d := r.dispatcher(dispatcher.Config{})
	dispatcher.Handle(d, "k", nop)
	r.start(d)
	if e := r.awaitType(dispatcher.Holder, id); !strings.Contains(e.Reason, fmt.Sprintf("ended backend %d", session.PgConn().PID())) {
		t.Errorf("told %q, %v", e.Reason, e.Err)
	}
	r.awaitType(dispatcher.Recorded, id)
	if state, attempt, _ := r.fate(id); state != "completed" || attempt != 2 {
		t.Errorf("%s in attempt %d", state, attempt)
	}
	if err := session.Ping(context.Background()); err == nil {
		t.Error("the frozen session lives")
	}
}

// TestStuckHolderWithoutRights: who may not end it says who may, and how, once.
func TestStuckHolderWithoutRights(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	role := "modest_" + r.db.Name
	r.db.Exec(t, fmt.Sprintf(`create role %s login; select lockstep.grant_worker('%[1]s')`, role))
	id, session := r.frozen()
	cfg := r.pool.Config()
	cfg.ConnConfig.User = role
	d := r.dispatcherOn(newPool(t, cfg), dispatcher.Config{})
	dispatcher.Handle(d, "k", nop)
	stop := r.start(d)
	e := r.awaitType(dispatcher.Holder, id)
	if want := fmt.Sprintf("select pg_terminate_backend(%d)", session.PgConn().PID()); !strings.Contains(e.Reason, want) {
		t.Errorf("told %q, which does not hold %q", e.Reason, want)
	}
	looks := func(e dispatcher.Event) bool { return e.Type == dispatcher.Looked }
	r.await("more looks", r.count(looks)+3, looks)
	if n := r.count(func(e dispatcher.Event) bool { return e.Type == dispatcher.Holder }); n != 1 {
		t.Errorf("told %d times", n)
	}
	stop()
	if _, err := session.Exec(context.Background(), "rollback"); err != nil {
		t.Error(err)
	}
	r.db.Exec(t, fmt.Sprintf("drop owned by %s; drop role %[1]s", role))
}
