package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/handler"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/web"
)

// Sidecar is a dispatcher with what it pushes to.
type Sidecar struct {
	settings   *Settings
	pool       *pgxpool.Pool // for health
	counting   *pgxpool.Pool // for metrics: health must not wait while jobs are counted
	apiPool    *pgxpool.Pool
	log        *slog.Logger
	routes     handler.Routes
	dispatcher *dispatcher.Dispatcher
	metrics    *web.Metrics
	counts     counts
	working    context.Context // a run's: when it has ended, nothing more is begun
}

// counts are what became of the attempts of a run.
type counts struct {
	claimed, completed, failed, dead, snoozed, back atomic.Int64
	cut                                             atomic.Int64 // those of back that the end of the run cut off
}

// dispatcherConns leave two of six connections for health and metrics: one
// listens, one sends heartbeats, two claim and finish.
const dispatcherConns = 4

// New returns a Sidecar over a database. Beside the dispatcher's connections it
// uses two, for health and for metrics, and up to four for the API. maxJobs, if
// not zero, bounds the jobs of a run.
func New(s *Settings, database *pgxpool.Config, maxJobs int, log *slog.Logger) (*Sidecar, error) {
	c := &Sidecar{settings: s, log: log}
	var err error
	if c.routes, err = s.Routes(func(target string, status int, took time.Duration) { c.metrics.Pushed(target, status, took) }); err != nil {
		return nil, err
	}
	database = database.Copy()
	database.MaxConns = 1
	if c.pool, err = pgxpool.NewWithConfig(context.Background(), database); err != nil {
		return nil, err
	}
	if c.counting, err = pgxpool.NewWithConfig(context.Background(), database); err != nil {
		c.pool.Close()
		return nil, err
	}
	if c.apiPool, err = apiPool(database); err != nil {
		c.pool.Close()
		c.counting.Close()
		return nil, err
	}
	queues := c.queues()
	c.metrics = web.NewMetrics(web.MetricsConfig{Queues: queues, Count: store.New(c.counting).In(s.Database.Schema).CountJobs, Circuits: c.circuits})
	config := dispatcher.Config{
		Queues: make(map[string]dispatcher.Queue), Schema: s.Database.Schema, Lease: time.Duration(s.Lease), Poll: time.Duration(s.Poll),
		ShutdownGrace: time.Duration(s.Grace), ReturnGrace: s.returnGrace(), MaxConns: dispatcherConns, ListenURL: s.Database.ListenURL, MaxJobs: maxJobs, OnEvent: c.event, Logger: log,
	}
	for _, name := range queues {
		config.Queues[name] = dispatcher.Queue{Concurrency: s.Queues[name].Concurrency, Kinds: c.routes.Kinds(name)}
	}
	if c.dispatcher, err = dispatcher.New(c.pool, config); err != nil {
		c.Close()
		return nil, err
	}
	c.routes.Register(c.dispatcher, queues...)
	c.metrics.Watch(c.dispatcher)
	return c, nil
}

// Close lets go of connections.
func (c *Sidecar) Close() {
	for _, route := range c.routes {
		if push, ok := route.To.(*handler.Push); ok {
			push.Close()
		}
	}
	c.pool.Close()
	c.counting.Close()
	c.apiPool.Close()
}

// apiConns is how many connections the API may use. They are made when needed.
const apiConns = 4

func apiPool(database *pgxpool.Config) (*pgxpool.Pool, error) {
	database = database.Copy()
	database.MaxConns, database.MinConns, database.MaxConnIdleTime = apiConns, 0, time.Minute
	return pgxpool.NewWithConfig(context.Background(), database)
}

// queues are the names of those worked on, sorted.
func (c *Sidecar) queues() []string { return slices.Sorted(maps.Keys(c.settings.Queues)) }

// circuits are the states of the push targets, by name. Each route has a circuit
// of its own: of several to one target, the one that is furthest from closed is
// told.
func (c *Sidecar) circuits() map[string]string {
	all := make(map[string]string)
	rank := map[string]int{string(handler.Closed): 1, string(handler.HalfOpen): 2, string(handler.Open): 3}
	for _, route := range c.routes {
		push, ok := route.To.(*handler.Push)
		if !ok {
			continue
		}
		if state := string(push.Circuit()); rank[state] > rank[all[push.Name()]] {
			all[push.Name()] = state
		}
	}
	return all
}

// down are the targets that are not pushed to, by name.
func (c *Sidecar) down() (names []string) {
	for name, state := range c.circuits() {
		if state != string(handler.Closed) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// event counts what becomes of attempts.
func (c *Sidecar) event(e dispatcher.Event) {
	c.metrics.OnEvent(e)
	switch {
	case e.Type == dispatcher.Started:
		c.counts.claimed.Add(1)
	case e.Type == dispatcher.Unrecorded, e.Type == dispatcher.Ended && e.Outcome == store.Released && e.Ran > 0:
		c.counts.back.Add(1)
		if e.Type == dispatcher.Unrecorded || c.working.Err() != nil {
			c.counts.cut.Add(1)
		}
	case e.Type != dispatcher.Recorded:
	case e.Outcome == store.Completed:
		c.counts.completed.Add(1)
	case e.Outcome == store.Failed:
		c.counts.failed.Add(1)
	case e.Outcome == store.Dead:
		c.counts.dead.Add(1)
	case e.Outcome == store.Snoozed:
		c.counts.snoozed.Add(1)
	}
}

// ErrCut is a run that ended before all its handlers had: what they were at
// runs again elsewhere.
var ErrCut = errors.New("handlers were cut off")

// ended is the error of a run that was asked to end.
func (c *Sidecar) ended() error {
	if n := c.counts.cut.Load(); n > 0 {
		return fmt.Errorf("%w: %d still ran when the grace of %v was over, or can't record their outcome; their jobs run again",
			ErrCut, n, time.Duration(c.settings.Grace))
	}
	return nil
}

// checkSchema tells whether the database answers, with the schema it should have.
func (c *Sidecar) checkSchema(ctx context.Context) error {
	return migrations.Require(ctx, c.pool, c.settings.Database.Schema)
}

// Describe logs the settings that hold, without secrets.
func (c *Sidecar) Describe(ctx context.Context, message string) {
	s := c.settings
	queues := make([]string, 0, len(s.Queues))
	for _, name := range slices.Sorted(maps.Keys(s.Queues)) {
		queues = append(queues, fmt.Sprintf("%s=%d", name, s.Queues[name].Concurrency))
	}
	var to []string
	for _, route := range c.routes {
		to = append(to, describe(route))
	}
	conn := c.pool.Config().ConnConfig
	c.log.InfoContext(ctx, message, "database", conn.Database, "host", conn.Host, "user", conn.User, "schema", cmp.Or(s.Database.Schema, store.DefaultSchema),
		"listen", s.Listen, "lease", time.Duration(s.Lease), "poll", time.Duration(s.Poll), "grace", time.Duration(s.Grace), "queues", queues, "to", to)
	for _, route := range c.unserved() {
		c.log.WarnContext(ctx, "this route gets no job: its queue is not among those that are worked on (queues, --queue)", "route", describe(route))
	}
	for i, p := range s.Push {
		if len(p.Secrets)+len(p.SecretFiles) == 0 {
			c.log.WarnContext(ctx, "pushes are not signed: give push secrets, so that the app can tell who sends", "target", c.routes[i].To.(*handler.Push).Name())
		}
	}
}

// unserved are the routes for queues that are not worked on here. That may be
// meant, where several processes share a file, each with a queue of its own.
func (c *Sidecar) unserved() (routes []handler.Route) {
	for _, route := range c.routes {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(c.settings.Queues)), func(queue string) bool {
			return len(handler.Routes{route}.Kinds(queue)) > 0
		}) {
			routes = append(routes, route)
		}
	}
	return routes
}

// describe is a route in a few words.
func describe(r handler.Route) string {
	what := "queue " + orAll(r.Queue) + ", kind " + orAll(r.Kind) + " -> "
	if push, ok := r.To.(*handler.Push); ok {
		return what + push.Name()
	}
	return what + "command"
}

func orAll(pattern string) string {
	if pattern == "" {
		return "*"
	}
	return pattern
}
