package puppet

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
	"github.com/lockstep-pg/lockstep/listener"
	"github.com/lockstep-pg/lockstep/store"
)

const (
	role  = "puppet"
	ready = "ready" // what a process prints when it listens
)

// Register makes Scene.Start work. It is called in TestMain.
func Register() { workerproc.Register(role, play) }

// worker is the process's side.
type worker struct {
	Config
	journal *journal
}

// play runs a dispatcher until ctx ends.
func play(ctx context.Context, args []string) error {
	config, err := configFrom(args)
	if err != nil {
		return err
	}
	w := &worker{Config: config}
	if w.journal, err = openJournal(ctx, config); err != nil {
		return err
	}
	defer w.journal.close()
	pool, err := config.pool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	d, err := dispatcher.New(pool, config.dispatcher(w.event))
	if err != nil {
		return err
	}
	w.handle(d)
	return d.Run(ctx)
}

func (w *worker) event(e dispatcher.Event) {
	if e.Type == dispatcher.Listening && e.Reason == listener.Connected.String() {
		fmt.Println(ready)
	}
	w.journal.event(e)
}

func (w *worker) handle(d *dispatcher.Dispatcher) {
	for _, kind := range w.Kinds {
		dispatcher.Handle(d, kind, func(ctx context.Context, job dispatcher.Job[Script]) error {
			return w.act(ctx, job.Job, func() error { return job.Payload.perform(ctx, w.Name) })
		})
		d.Configure(kind, dispatcher.HandlerConfig{Timeout: w.Timeout})
	}
	for _, kind := range w.TxKinds {
		dispatcher.HandleTx(d, kind, func(ctx context.Context, tx pgx.Tx, job dispatcher.Job[Script]) error {
			return w.act(ctx, job.Job, func() error {
				if _, err := tx.Exec(ctx, "insert into effect values ($1, $2)", job.ID, job.Fence); err != nil {
					return err
				}
				return job.Payload.perform(ctx, w.Name)
			})
		})
	}
}

// act is a handler between its two rows: the first thing it does is to note
// that it started, the last that it ended, and why if it did not end by itself.
func (w *worker) act(ctx context.Context, job store.Job, do func() error) error {
	w.journal.write(entry{"start", job, ""})
	err := do()
	detail := ""
	if ctx.Err() != nil {
		detail = context.Cause(ctx).Error()
	} else if err != nil {
		detail = err.Error()
	}
	w.journal.write(entry{"end", job, detail})
	return err
}
