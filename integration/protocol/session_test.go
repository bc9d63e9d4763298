package protocol_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/store"
)

// session is one connection, and the worker that it is.
type session struct {
	t      testing.TB
	conn   *pgx.Conn
	store  *store.Store
	worker store.WorkerID
	usage  time.Duration // of the CPU, as told
}

// try runs a statement, or, without arguments, any number of statements.
func (c *session) try(sql string, args ...any) error {
	_, err := c.conn.Exec(c.t.Context(), sql, args...)
	return err
}

func (c *session) exec(sql string, args ...any) {
	must(sql, c.try(sql, args...))
}

// cpu is what the server takes of a CPU for what act does in this session.
// Other work on the machine does not change it as it changes the time.
func (c *session) cpu(act func()) time.Duration {
	c.exec("set client_min_messages = log; set log_statement_stats = on")
	c.usage = 0
	act()
	used := c.usage
	c.exec("set log_statement_stats = off; reset client_min_messages")
	return used
}

// notice adds up the usage that the server tells.
func (c *session) notice(_ *pgconn.PgConn, notice *pgconn.Notice) {
	var user, system float64
	if _, err := fmt.Sscanf(notice.Detail, "! system usage stats:\n!\t%f s user, %f s system", &user, &system); err == nil {
		c.usage += time.Duration((user + system) * float64(time.Second))
	}
}

// value reads one value.
func value[T any](c *session, sql string, args ...any) T {
	var v T
	must(sql, c.conn.QueryRow(c.t.Context(), sql, args...).Scan(&v))
	return v
}

// put inserts jobs of kind k, by plain SQL, one statement each. The payload
// carries the name; an empty key is none.
func (c *session) put(key string, names ...string) {
	for _, name := range names {
		c.exec(`insert into lockstep.job (kind, ordering_key, payload)
			values ('k', nullif($1, ''), jsonb_build_object('n', $2::text))`, key, name)
	}
}

// claim takes jobs of kind k for a minute.
func (c *session) claim(limit int) []store.Job {
	return c.claimFrom("default", limit)
}

func (c *session) claimFrom(queue string, limit int) []store.Job {
	return c.look(queue, limit).Jobs
}

func (c *session) look(queue string, limit int) store.Claimed {
	claimed, err := c.store.Claim(c.t.Context(), store.ClaimArgs{
		Worker: c.worker, Queue: queue, Kinds: []string{"k"}, Max: limit, Lease: time.Minute,
	})
	must("claim", err)
	return claimed
}

// claimOne takes the one job that must be there.
func (c *session) claimOne() store.Job {
	jobs := c.claim(10)
	want("jobs claimed", len(jobs), 1)
	return jobs[0]
}

// finish reports one outcome for jobs, all in one call, and answers with the
// states in their order: "done pending".
func (c *session) finish(outcome store.Outcome, jobs ...store.Job) string {
	answers, err := c.report(store.FinishArgs{}, outcome, jobs...)
	must("finish", err)
	states := make([]string, len(jobs))
	for i, job := range jobs {
		states[i] = string(answers[job.ID].State)
	}
	return strings.Join(states, " ")
}

// settle is finish as a handler's own transaction calls it.
func (c *session) settle(job store.Job) string {
	answers, err := c.report(store.FinishArgs{SettleOnly: true}, store.Completed, job)
	must("finish", err)
	return string(answers[job.ID].State)
}

func (c *session) report(args store.FinishArgs, outcome store.Outcome, jobs ...store.Job) (map[int64]store.Finished, error) {
	args.Worker, args.Lease = c.worker, time.Minute
	for _, job := range jobs {
		args.Reports = append(args.Reports, store.Finish{
			Claim: claimOf(job), Outcome: outcome, Error: string(outcome), Delay: new(time.Duration),
		})
	}
	return c.store.Finish(c.t.Context(), args)
}

// extend renews the leases of jobs and answers like finish.
func (c *session) extend(jobs ...store.Job) string {
	claims := make([]store.Claim, len(jobs))
	for i, job := range jobs {
		claims[i] = claimOf(job)
	}
	answers, err := c.store.Extend(c.t.Context(), c.worker, claims, time.Minute)
	must("extend", err)
	states := make([]string, len(jobs))
	for i, job := range jobs {
		states[i] = string(answers[job.ID])
	}
	return strings.Join(states, " ")
}

// code is an error's SQLSTATE; "" for none.
func code(err error) string {
	var postgres *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &postgres):
		return postgres.Code
	default:
		return err.Error()
	}
}

func claimOf(job store.Job) store.Claim { return store.Claim{ID: job.ID, Fence: job.Fence} }

// names are the names of jobs: "a b".
func names(jobs []store.Job) string {
	all := make([]string, len(jobs))
	for i, job := range jobs {
		all[i] = nameOf(job)
	}
	return strings.Join(all, " ")
}

func nameOf(job store.Job) string {
	var payload struct{ N string }
	must("payload", json.Unmarshal(job.Payload, &payload))
	return payload.N
}

// hold takes the run lock of a job's lane, as a transactional handler.
func (c *session) hold(job store.Job) bool {
	held, err := c.store.HoldLane(c.t.Context(), claimOf(job))
	must("hold_lane", err)
	return held
}

// background is a statement that runs while the scene goes on.
type background struct {
	c    *session
	pid  uint32
	done chan struct{}
	err  error
	look *pgx.Conn
}

// start runs a statement in the background. The session must not be used
// before wait.
func (s *scene) start(c *session, sql string, args ...any) *background {
	b := &background{c: c, pid: c.conn.PgConn().PID(), done: make(chan struct{}), look: s.conn}
	ctx, cancel := context.WithTimeout(c.t.Context(), 15*time.Second)
	go func() {
		defer close(b.done)
		defer cancel()
		_, b.err = c.conn.Exec(ctx, sql, args...)
	}()
	c.t.Cleanup(func() { cancel(); <-b.done })
	return b
}

// waits tells whether the statement came to wait for a lock; false: it is done.
func (b *background) waits() bool {
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		var blocked bool
		err := b.look.QueryRow(b.c.t.Context(),
			"select coalesce(bool_or(wait_event_type = 'Lock'), false) from pg_stat_activity where pid = $1", int64(b.pid)).Scan(&blocked)
		must("pg_stat_activity", err)
		if blocked {
			return true
		}
		select {
		case <-b.done:
			return false
		case <-poll.C:
		}
	}
}

// wait returns the statement's error. One that takes too long is an error.
func (b *background) wait() error {
	select {
	case <-b.done:
		return b.err
	case <-time.After(patience):
		return fmt.Errorf("still waiting after %v", patience)
	}
}

// listen hears the signals of the schema from now on.
func (c *session) listen() {
	c.exec(`do $$ begin execute format('listen %I', lockstep.channel()); end $$`)
}

// signals are the classes of the signals that have come: "d r".
func (c *session) signals() string {
	c.exec("select 1") // they come with an answer
	var classes []string
	for {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Millisecond)
		n, err := c.conn.WaitForNotification(ctx)
		cancel()
		if err != nil {
			slices.Sort(classes)
			return strings.Join(classes, " ")
		}
		class, _, _ := strings.Cut(n.Payload, " ")
		classes = append(classes, class)
	}
}
