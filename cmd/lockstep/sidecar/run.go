package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/web"
)

// Run pushes jobs, and answers for health, metrics and the API, until ctx ends. Then
// /readyz says no at once, handlers have their grace, which a value from hurry
// ends, and the rest is given back. note is said in /readyz.
//
// It returns ErrCut, wrapped, if a handler was cut off.
func (c *Sidecar) Run(ctx context.Context, hurry <-chan struct{}, note string) error {
	access, err := c.settings.access()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.settings.Listen)
	if err != nil {
		return c.settings.bad("listen", err)
	}
	health := web.NewHealth(web.HealthConfig{
		Dispatcher: c.dispatcher, Lease: time.Duration(c.settings.Lease), Database: c.checkSchema, Circuits: c.circuits, Note: note,
		NotifyQueue: store.New(c.pool).In(c.settings.Database.Schema).NotifyQueue,
	})
	api := web.NewAPI(web.APIConfig{
		Pool: c.apiPool, Schema: c.settings.Database.Schema, Token: access.write, ReadToken: access.read, Hosts: c.settings.APIHosts,
		Drain: c.awaitIdle, Logger: c.log,
	})
	server := &http.Server{
		Handler: c.mux(health, api), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelWarn),
	}
	server.RegisterOnShutdown(api.Stop)
	c.Describe(ctx, "lockstep runs")
	c.log.InfoContext(ctx, "listening", "address", listener.Addr().String())

	stop := context.AfterFunc(ctx, health.Stop)
	defer stop()
	c.working = ctx
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
		c.log.ErrorContext(ctx, "health, metrics and the API are not served any more", "error", err)
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

// mux is what is served. Schedules and the dashboard join here. All but what is
// named is the API's to answer, behind its guard: also a path that is not clean,
// from which an http.ServeMux would redirect whoever asks.
func (c *Sidecar) mux(health *web.Health, api *web.API) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", health.Alive)
	mux.HandleFunc("GET /readyz", health.Ready)
	mux.Handle("GET /metrics", api.Guard(c.metrics))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz", "/readyz", "/metrics":
			mux.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
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
	c.working = working
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
	d := Drained{c.drained()}
	d.Seconds, d.More, d.Down = time.Since(began).Seconds(), working.Err() != nil, c.down()
	return d, err
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
