package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// behaviours of handlers, by the number in the payload.
const (
	succeeds = iota
	failsTwice
	diesAtOnce
	snoozesOnce
	waitsForTheEnd  // of its context
	ignoresTheEnd   // and succeeds
	diesAtTheEnd    // for good
	panicsAtTheEnd  // of its context
	behaviourNumber // of them
)

// TestCancelsAtRandomMoments cancels a thousand jobs, in whatever state they are
// just then, and sees that each ends as docs/operations.md says. LOCKSTEP_SEED
// repeats a run's decisions.
func TestCancelsAtRandomMoments(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("LOCKSTEP_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("LOCKSTEP_SEED=%d", seed)
	c := &cancels{rig: newRig(t), rand: rand.New(rand.NewPCG(seed, 0)), fates: make(map[int64]*fate)}
	c.db.Exec(t, "create table effect (job bigint); select lockstep.set_queue('default', backoff_base => '10 ms')")
	d := c.dispatcher(dispatcher.Config{Queues: map[string]dispatcher.Queue{"default": {Concurrency: 12}}, MaxConns: 12})
	dispatcher.Handle(d, "plain", func(ctx context.Context, job dispatcher.Job[payload]) error { return c.behave(ctx, job) })
	dispatcher.HandleTx(d, "tx", func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[payload]) error {
		if _, err := tx.Exec(context.WithoutCancel(ctx), "insert into effect values ($1)", job.ID); err != nil {
			return err
		}
		return c.behave(ctx, job)
	})
	c.start(d)
	c.listening()
	for range 20 {
		c.round(50)
	}
	c.until("not exists (select from lockstep.job)")
	c.judge()
}

type cancels struct {
	*rig
	rand *rand.Rand

	mu    sync.Mutex
	fates map[int64]*fate
}

// fate is what is known of a job.
type fate struct {
	behaviour int
	tx        bool
	starts    []time.Time
	cause     error // of the end of the context that it waited for
	answer    store.CancelState
	answered  time.Time
}

// of is a job's fate, made when it is first asked for.
func (c *cancels) of(id int64) *fate {
	if c.fates[id] == nil {
		c.fates[id] = new(fate)
	}
	return c.fates[id]
}

func (c *cancels) behave(ctx context.Context, job dispatcher.Job[payload]) error {
	c.mu.Lock()
	f := c.of(job.ID)
	f.starts = append(f.starts, time.Now())
	c.mu.Unlock()
	if b := job.Payload.N; b >= waitsForTheEnd && b < behaviourNumber {
		<-ctx.Done()
		c.mu.Lock()
		f.cause = context.Cause(ctx)
		c.mu.Unlock()
	}
	switch b := job.Payload.N; {
	case b == failsTwice && job.Attempt < 3, b == waitsForTheEnd:
		return errFailed
	case b == diesAtOnce, b == diesAtTheEnd:
		return backoff.Permanent(errFailed)
	case b == snoozesOnce:
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(f.starts) == 1 {
			return dispatcher.Snooze(20 * time.Millisecond)
		}
	case b == panicsAtTheEnd:
		panicHere()
	}
	return nil
}

// round enqueues jobs, lets some begin, and cancels all in another order.
func (c *cancels) round(n int) {
	c.Helper()
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = store.NewJob{Kind: "plain", Payload: payload{c.rand.IntN(behaviourNumber)}, MaxAttempts: 4}
		if c.rand.IntN(3) == 0 {
			jobs[i].Kind = "tx"
		}
		if c.rand.IntN(2) == 0 {
			jobs[i].OrderingKey = fmt.Sprint(c.rand.IntN(6))
		}
		if c.rand.IntN(5) == 0 {
			jobs[i].Delay = time.Duration(1+c.rand.IntN(50)) * time.Millisecond
		}
	}
	ids := c.enqueue(jobs...)
	c.mu.Lock()
	for i, id := range ids {
		f := c.of(id)
		f.behaviour, f.tx = jobs[i].Payload.(payload).N, jobs[i].Kind == "tx"
	}
	c.mu.Unlock()
	if c.rand.IntN(4) > 0 { // else at once
		c.until("exists (select from lockstep.attempt where job_id >= $1) or exists (select from lockstep.job where id >= $1 and attempt > 0) or exists (select from lockstep.finished_job where id >= $1)", ids[0])
	}
	c.rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	var cancelling sync.WaitGroup
	for _, half := range [][]int64{ids[:n/2], ids[n/2:]} {
		cancelling.Go(func() {
			for _, id := range half {
				c.cancel(id)
			}
		})
	}
	cancelling.Wait()
}

func (c *cancels) cancel(id int64) {
	db := store.New(c.pool)
	answer, err := db.Cancel(c.Context(), id)
	for errors.Is(err, store.ErrBusy) {
		answer, err = db.Cancel(c.Context(), id)
	}
	if err != nil {
		c.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.of(id)
	f.answer, f.answered = answer, time.Now()
}

// judge compares what each job came to with what may be.
func (c *cancels) judge() {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	won := make(map[string]int)
	for id, f := range c.fates {
		state, _, note := c.fate(id)
		won[string(f.answer)+" → "+state]++
		after := 0
		for _, start := range f.starts {
			if start.After(f.answered) {
				after++
			}
		}
		effect := testdb.Value[bool](c, c.db, "select exists (select from effect where job = $1)", id)
		problem := ""
		switch {
		case f.answer == store.CancelDone && (state != "cancelled" || after > 0):
			problem = "cancelled, and ran on"
		case f.answer == store.CancelRequested && after > 1:
			problem = "tried again after its cancel"
		case f.answer == store.CancelRequested && state != f.requested():
			problem = "asked to stop, want " + f.requested()
		case f.answer == store.CancelEnded && state == "cancelled":
			problem = "said to have ended by itself"
		case f.cause != nil && !errors.Is(f.cause, dispatcher.ErrCancelled):
			problem = "its context ended otherwise"
		case effect != (f.tx && state == "completed"):
			problem = fmt.Sprintf("effect: %v", effect)
		}
		if problem != "" {
			c.Errorf("job %d, %+v: %s (%s): %s", id, f, state, note, problem)
		}
	}
	c.Log(won)
}

// requested is how a job ends whose handler was asked to stop.
func (f *fate) requested() string {
	if len(f.starts) == 0 { // a transactional one, before its transaction stood
		return "cancelled"
	}
	switch f.behaviour {
	case diesAtOnce, diesAtTheEnd:
		return "dead"
	case waitsForTheEnd, panicsAtTheEnd, failsTwice, snoozesOnce:
		if len(f.starts) == 3 && f.behaviour == failsTwice || len(f.starts) == 2 && f.behaviour == snoozesOnce {
			return "completed"
		}
		return "cancelled"
	default:
		return "completed"
	}
}
