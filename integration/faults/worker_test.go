package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/clockstep"
	"github.com/lockstep-pg/lockstep/listener"
)

// clockStep is by how much SIGUSR1 moves a worker's clock ahead, and SIGUSR2
// back.
const clockStep = 10 * time.Minute

// worker is a process with a dispatcher.
type worker struct {
	actorConfig
	witness *teller
}

func work(ctx context.Context, args []string) error {
	config, err := actorFrom(args)
	if err != nil {
		return err
	}
	w := &worker{actorConfig: config}
	if w.witness, err = tellTo(config.Witness); err != nil {
		return err
	}
	defer w.witness.Close()
	stop := stepOnSignal()
	defer stop()
	pool, err := pgxpool.New(ctx, config.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	d, err := dispatcher.New(pool, dispatcher.Config{
		Name:    config.Name,
		Queues:  map[string]dispatcher.Queue{skipQueue: {Concurrency: concurrency}, blockQueue: {Concurrency: concurrency}},
		Lease:   config.Lease,
		MaxTx:   concurrency,
		OnEvent: w.event,
	})
	if err != nil {
		return err
	}
	dispatcher.Handle(d, kindPlain, w.plain)
	dispatcher.HandleTx(d, kindTx, w.transactional)
	return d.Run(ctx)
}

// stepOnSignal steps this process's clock when it is told to. The first step is
// none: it is what tells whether steps are possible.
func stepOnSignal() (stop func()) {
	if clockstep.Step(0) != nil {
		return func() {}
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := range signals {
			by := clockStep
			if s == syscall.SIGUSR2 {
				by = -clockStep
			}
			if err := clockstep.Step(by); err != nil {
				panic(err)
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

func (w *worker) event(e dispatcher.Event) {
	switch {
	case e.Type == dispatcher.Listening && e.Reason == listener.Connected.String():
		fmt.Println(ready)
	case e.Type == dispatcher.LeaseLost:
		tell[Lost, int](w.witness, "Lose", Lost{Worker: w.Name, JobID: e.JobID, Fence: e.Fence, Reason: e.Reason})
	}
}

var errPlanned = errors.New("failed, as planned")

func (w *worker) plain(ctx context.Context, job dispatcher.Job[Script]) error {
	return w.attempt(ctx, job, func(run int) error {
		// What the system outside answers is for the checker: a refused handler
		// reports as if nothing had happened, and must be refused again.
		tell[int, bool](w.witness, "Write", run)
		return nil
	})
}

func (w *worker) transactional(ctx context.Context, tx pgx.Tx, job dispatcher.Job[Script]) error {
	return w.attempt(ctx, job, func(int) error {
		_, err := tx.Exec(ctx, "insert into effect (marker, fence) values ($1, $2)", job.Payload.Marker, job.Fence)
		return err
	})
}

// attempt does what the script says, between the two things it tells the
// witness. What the database itself does to a transaction is not the script's.
func (w *worker) attempt(ctx context.Context, job dispatcher.Job[Script], effect func(run int) error) error {
	script := job.Payload
	lane := Lane{job.Queue, job.OrderingKey}
	if lane.Key == "" {
		lane.Key = script.Marker
	}
	started := tell[Run, Started](w.witness, "Start", Run{
		Marker: script.Marker, JobID: job.ID, Lane: lane, Fence: job.Fence, Attempt: job.Attempt, Worker: w.Name, InTx: job.Kind == kindTx,
	})
	end := func(o Outcome, err error) error {
		e := Ending{Run: started.Run, Outcome: o}
		if err != nil {
			e.Cause = err.Error()
		}
		tell[Ending, int](w.witness, "End", e)
		return err
	}
	if err := script.busy(ctx); err != nil {
		return end(stopped, err)
	}
	o := script.outcome(started.Earlier)
	if o.final() {
		if err := effect(started.Run); err != nil {
			return end(stopped, err)
		}
	}
	switch o {
	case dead:
		return end(o, backoff.Permanent(errPlanned))
	case failed:
		return end(o, dispatcher.RetryAfter(script.Pause, errPlanned))
	case snoozed:
		return end(o, dispatcher.Snooze(script.Pause))
	default:
		return end(o, nil)
	}
}

// busy takes its time. Where the handler is stubborn it does not look at its
// context.
func (s Script) busy(ctx context.Context) error {
	if s.Stubborn {
		time.Sleep(s.Work)
		return nil
	}
	select {
	case <-time.After(s.Work):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// outcome is what comes next after what came before.
func (s Script) outcome(earlier map[Outcome]int) Outcome {
	switch {
	case earlier[snoozed] < s.Snoozes:
		return snoozed
	case earlier[failed] < s.Fails:
		return failed
	case s.Dies:
		return dead
	default:
		return completed
	}
}
