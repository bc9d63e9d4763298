package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/web"
)

// Run pushes jobs, and answers for health and metrics, until ctx ends. Then
// /readyz says no at once, handlers have their grace, which a value from hurry
// ends, and the rest is given back. note is said in /readyz.
//
// It returns ErrCut, wrapped, if a handler was cut off.
func (c *Sidecar) Run(ctx context.Context, hurry <-chan struct{}, note string) error {
	listener, err := net.Listen("tcp", c.settings.Listen)
	if err != nil {
		return c.settings.bad("listen", err)
	}
	health := web.NewHealth(web.HealthConfig{
		Dispatcher: c.dispatcher, Lease: time.Duration(c.settings.Lease), Database: c.checkSchema, Circuits: c.circuits, Note: note,
		NotifyQueue: store.New(c.pool).In(c.settings.Database.Schema).NotifyQueue,
	})
	server := &http.Server{
		Handler: c.mux(health), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelWarn),
	}
	c.Describe(ctx, "lockstep runs")
	c.log.InfoContext(ctx, "listening", "address", listener.Addr().String())

	stop := context.AfterFunc(ctx, health.Stop)
	defer stop()
	done := make(chan struct{}) // closed when the dispatcher has ended
	var group errgroup.Group
	group.Go(func() error {
		defer close(done)
		return c.dispatcher.Run(ctx)
	})
	group.Go(func() error {
		c.hasten(ctx, hurry, done)
		return nil
	})
	group.Go(func() error {
		<-done
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		return errors.Join(server.Shutdown(ending), server.Close())
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		c.log.ErrorContext(ctx, "health and metrics are not served any more", "error", err)
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return c.ended()
}

// hasten ends the grace at a value from hurry, until done.
func (c *Sidecar) hasten(ctx context.Context, hurry, done <-chan struct{}) {
	select {
	case <-hurry:
		c.log.WarnContext(ctx, "the grace is over: asked again to end")
		c.dispatcher.EndGrace()
	case <-done:
	}
}

// mux is what is served. The API, schedules and the dashboard join here.
func (c *Sidecar) mux(health *web.Health) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", health.Alive)
	mux.HandleFunc("GET /readyz", health.Ready)
	mux.Handle("GET /metrics", c.metrics)
	return mux
}

// Drain works until nothing is ready, the jobs' number is reached, or the time
// is over; then handlers under way have their grace, which a value from hurry
// ends. It returns what it did.
func (c *Sidecar) Drain(ctx context.Context, longest time.Duration, hurry <-chan struct{}) (Drained, error) {
	c.Describe(ctx, "lockstep drains")
	if err := c.reach(ctx, longest); err != nil {
		return Drained{}, err
	}
	began := time.Now()
	working, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	done := make(chan struct{})
	var group errgroup.Group
	group.Go(func() error {
		c.hasten(ctx, hurry, done)
		return nil
	})
	err := c.dispatcher.RunUntilIdle(working)
	close(done)
	_ = group.Wait() // it returns nil
	if working.Err() != nil && errors.Is(err, context.Cause(working)) {
		err = nil // there is more to do, for the next one
	}
	if err == nil {
		err = c.ended()
	}
	n := &c.counts
	return Drained{
		Down:     c.down(),
		Attempts: n.claimed.Load(), Completed: n.completed.Load(), Failed: n.failed.Load(), Dead: n.dead.Load(), Snoozed: n.snoozed.Load(),
		GivenBack: n.cut.Load(), Seconds: time.Since(began).Seconds(), More: working.Err() != nil,
	}, err
}

// reach tells whether the database can be connected to: the dispatcher would
// wait for it, which is not a drain's business.
func (c *Sidecar) reach(ctx context.Context, longest time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, c.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// Drained is what a drain did.
type Drained struct {
	Attempts  int64   `json:"attempts"`
	Completed int64   `json:"completed"`
	Failed    int64   `json:"failed"`
	Dead      int64   `json:"dead"`
	Snoozed   int64   `json:"snoozed"`    // not tried or not the job's fault: again later
	GivenBack int64   `json:"given_back"` // cut off at the end
	Seconds   float64 `json:"seconds"`
	More      bool    `json:"more"` // its time was over, or it was asked to end, first
	// Down are the targets that were not pushed to at the end, as their circuits
	// were open: their jobs may still be ready.
	Down []string `json:"down,omitempty"`
}

// String is the same for people.
func (d Drained) String() string {
	text := fmt.Sprintf("%d attempts in %.1f s: %d completed, %d failed, %d dead, %d snoozed, %d given back",
		d.Attempts, d.Seconds, d.Completed, d.Failed, d.Dead, d.Snoozed, d.GivenBack)
	if d.More {
		text += "; it ended before the work did"
	}
	if len(d.Down) > 0 {
		text += "; jobs may be left, as these targets are down: " + strings.Join(d.Down, " ")
	}
	return text
}
