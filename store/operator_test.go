package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

func TestCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := r.put("a", 3)
	job := r.take()
	r.expectCancel(ids[0], store.CancelRequested)
	r.expectCancel(ids[1], store.CancelDone)
	if state := r.extend(job); state != store.ExtendCancelled {
		t.Errorf("extend says %s, want that a cancel was asked for", state)
	}
	if state := r.report(job, store.Failed); state != store.FinishDone {
		t.Errorf("the failure: %s", state)
	}
	r.expectState(ids[0], store.StateCancelled) // no other attempt
	r.expectState(ids[1], store.StateCancelled)
	r.expectCancel(ids[1], store.CancelEnded)
	r.expectCancel(ids[2], store.CancelDone) // a head that nobody runs
	if _, err := r.Cancel(t.Context(), 999); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of no job: %v", err)
	}
}

func (r *rig) expectCancel(id int64, want store.CancelState) {
	r.t.Helper()
	if state, err := r.Cancel(r.t.Context(), id); err != nil || state != want {
		r.t.Errorf("cancel of job %d: %s, %v; want %s", id, state, err, want)
	}
}

// A locked row is tried again for a while; in a transaction it is not.
func TestBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.put("", 1)[0]
	release := r.hold(id)
	err := pgx.BeginFunc(t.Context(), r.db.Conn(t), func(tx pgx.Tx) error {
		_, err := store.New(tx).Cancel(t.Context(), id)
		return err
	})
	if !errors.Is(err, store.ErrBusy) {
		t.Errorf("in a transaction: %v", err)
	}
	if _, err := r.Cancel(t.Context(), id); !errors.Is(err, store.ErrBusy) {
		t.Errorf("locked all the time: %v", err)
	}
	var releasing sync.WaitGroup
	releasing.Go(func() {
		<-time.After(50 * time.Millisecond) // while the cancel tries
		release()
	})
	r.expectCancel(id, store.CancelDone)
	releasing.Wait()
}

func TestReplayAndDiscard(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("a", 2)
	dead := r.die()
	if state, err := r.Replay(t.Context(), dead); err != nil || state != store.Replayed {
		t.Fatal(state, err)
	}
	r.expectState(dead, store.StateWaiting) // at the end of its lane
	if again := r.status(dead); again.Attempt != 0 {
		t.Errorf("attempt %d of a job replayed", again.Attempt)
	}
	for name, err := range map[string]error{"replay": errOf(r.Replay(t.Context(), dead)), "discard": r.Discard(t.Context(), dead)} {
		if !errors.Is(err, store.ErrState) {
			t.Errorf("%s of a job that is not dead: %v", name, err)
		}
	}
	second := r.die()
	if err := r.Discard(t.Context(), second); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"replay": errOf(r.Replay(t.Context(), second)), "discard": r.Discard(t.Context(), second), "status": errOf(r.JobStatus(t.Context(), second)),
	} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s of a job that is no more: %v", name, err)
		}
	}
}

func errOf[T any](_ T, err error) error { return err }

// Under the policy block a dead head holds its lane until a person decides.
func TestBlockedLane(t *testing.T) {
	t.Parallel()
	lane := store.Lane{OrderingKey: "a"}
	for name, decide := range map[string]func(r *rig, dead int64) (bool, error){
		"unblock": func(r *rig, _ int64) (bool, error) { return r.UnblockLane(r.t.Context(), lane) },
		"skip":    func(r *rig, _ int64) (bool, error) { return r.SkipHead(r.t.Context(), lane) },
		"discard": func(r *rig, dead int64) (bool, error) { return true, r.Discard(r.t.Context(), dead) },
		"policy": func(r *rig, _ int64) (bool, error) {
			left, err := r.SetQueue(r.t.Context(), "default", store.QueuePolicy{OnDead: store.OnDeadSkip})
			return left == 0, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if _, err := r.SetQueue(t.Context(), "default", store.QueuePolicy{OnDead: store.OnDeadBlock}); err != nil {
				t.Fatal(err)
			}
			ids := r.put("a", 2)
			if _, err := r.UnblockLane(t.Context(), lane); !errors.Is(err, store.ErrState) {
				t.Errorf("unblocking a lane that is not blocked: %v", err)
			}
			r.die()
			r.expectState(ids[0], store.StateDead)
			r.expectState(ids[1], store.StateWaiting)
			if _, err := r.Cancel(t.Context(), ids[0]); !errors.Is(err, store.ErrState) {
				t.Errorf("cancelling a job that blocks its lane: %v", err)
			}
			if now, err := decide(r, ids[0]); err != nil || !now {
				t.Fatal(now, err)
			}
			r.expectState(ids[1], store.StateReady)
		})
	}
}

func TestReplayInPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.SetQueue(t.Context(), "default", store.QueuePolicy{OnDead: store.OnDeadBlock}); err != nil {
		t.Fatal(err)
	}
	ids := r.put("a", 2)
	r.die()
	if state, err := r.Replay(t.Context(), ids[0]); err != nil || state != store.Replayed {
		t.Fatal(state, err)
	}
	r.expectState(ids[0], store.StateReady)
	r.expectState(ids[1], store.StateWaiting)
}

func TestSkipHead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := r.put("a", 2)
	lane := store.Lane{Queue: "default", OrderingKey: "a"}
	if now, err := r.SkipHead(t.Context(), lane); err != nil || !now {
		t.Fatal(now, err)
	}
	r.expectState(ids[0], store.StateDead)
	r.take()
	if _, err := r.SkipHead(t.Context(), lane); !errors.Is(err, store.ErrState) {
		t.Errorf("skipping a head that runs: %v", err)
	}
	lane.Tenant = "nobody"
	if _, err := r.SkipHead(t.Context(), lane); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("skipping the head of an idle lane: %v", err)
	}
}

// A policy's zero fields leave the queue's values as they are.
func TestSetQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	base, limit := time.Duration(0), 48*time.Hour
	for _, policy := range []store.QueuePolicy{{BackoffBase: &base}, {BackoffFactor: 1.5}, {BackoffCap: &limit}, {OnDead: store.OnDeadBlock}, {}} {
		if left, err := r.SetQueue(t.Context(), "q", policy); err != nil || left != 0 {
			t.Fatal(left, err)
		}
	}
	var onDead store.OnDead
	var factor float64
	var gotBase, gotLimit time.Duration
	err := r.db.Conn(t).QueryRow(t.Context(), "select on_dead, backoff_base, backoff_factor, backoff_cap from lockstep.queues where name = 'q'").
		Scan(&onDead, &gotBase, &factor, &gotLimit)
	if err != nil || onDead != store.OnDeadBlock || gotBase != base || factor != 1.5 || gotLimit != limit {
		t.Errorf("the queue has %s, %v × %v up to %v (%v)", onDead, gotBase, factor, gotLimit, err)
	}
	var refused *store.FieldError
	for field, err := range map[string]error{
		"name":    errOf(r.SetQueue(t.Context(), "", store.QueuePolicy{})),
		"on_dead": errOf(r.SetQueue(t.Context(), "q", store.QueuePolicy{OnDead: "stop"})),
	} {
		if !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("a bad %s: %v", field, err)
		}
	}
}
