package sidecar

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/web"
)

// Drained is what a drain did.
type Drained struct{ web.Drained }

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

// drained is what has been done so far.
func (c *Sidecar) drained() web.Drained {
	n := &c.counts
	return web.Drained{
		Attempts: n.claimed.Load(), Completed: n.completed.Load(), Failed: n.failed.Load(), Dead: n.dead.Load(),
		Snoozed: n.snoozed.Load(), GivenBack: n.back.Load(),
	}
}

// idleEvery is how often a drain asks for a count of jobs; one is made less
// often the longer it takes.
const idleEvery = 100 * time.Millisecond

// anyAge asks for the last count, however old it is.
const anyAge = 100 * 365 * 24 * time.Hour

// awaitIdle waits until nothing is ready or runs in the queues worked on here,
// or ctx ends: beside a dispatcher that works already that is a drain. It tells
// what was done meanwhile.
func (c *Sidecar) awaitIdle(ctx context.Context) (web.Drained, error) {
	began, before := time.Now(), c.drained()
	db := store.New(c.apiPool).In(c.settings.Database.Schema)
	last, err := db.CountJobs(ctx, anyAge)
	idle := false
	for newer := 0; ctx.Err() == nil && !idle && err == nil; {
		pause(ctx, idleEvery)
		var counted store.JobCounts
		if counted, err = db.CountJobs(ctx, idleEvery); err != nil || !counted.CountedAt.After(last.CountedAt) {
			continue
		}
		// Another process may have begun the first new count before the request
		// came. The one after it began when that one had ended: it decides.
		if last, newer = counted, newer+1; newer > 1 {
			idle, err = c.idle(ctx, db, counted)
		}
	}
	if ctx.Err() != nil {
		err = nil // the time was over
	}
	d := c.drained()
	return web.Drained{
		Attempts: d.Attempts - before.Attempts, Completed: d.Completed - before.Completed, Failed: d.Failed - before.Failed,
		Dead: d.Dead - before.Dead, Snoozed: d.Snoozed - before.Snoozed, GivenBack: d.GivenBack - before.GivenBack,
		Seconds: time.Since(began).Seconds(), More: !idle, Down: c.down(),
	}, err
}

// idle tells whether a count has no job that is ready or runs, in the queues
// worked on here that are not paused.
func (c *Sidecar) idle(ctx context.Context, db *store.Store, counted store.JobCounts) (bool, error) {
	pauses, err := db.Pauses(ctx)
	if err != nil {
		return false, err
	}
	for _, n := range counted.Counts {
		_, ours := c.settings.Queues[n.Queue]
		paused := slices.ContainsFunc(pauses, func(p store.Pause) bool { return p.Scope == store.Scope{Queue: n.Queue} })
		if ours && !paused && (n.State == store.StateReady || n.State == store.StateRunning) {
			return false, nil
		}
	}
	return true, nil
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
