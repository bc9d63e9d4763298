package dispatcher_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// catcher notes which handler ran which kind.
type catcher struct {
	mu  sync.Mutex
	ran []string
}

func (c *catcher) handle(d *dispatcher.Dispatcher, kind string) {
	dispatcher.Handle(d, kind, func(_ context.Context, job dispatcher.Job[json.RawMessage]) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ran = append(c.ran, job.Queue+"/"+job.Kind+" by "+kind)
		return nil
	})
}

func (c *catcher) expect(t *testing.T, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.ran)
	if !slices.Equal(c.ran, want) {
		t.Errorf("ran %q, want %q", c.ran, want)
	}
	c.ran = nil
}

// TestPatterns: the closest handler runs a kind, also after a hand-over, and a
// kind that none is for stays.
func TestPatterns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{Queues: map[string]dispatcher.Queue{"default": {Concurrency: 1}}})
	var c catcher
	for _, kind := range []string{"mail.*", "mail.vip.*", "mail.vip.one", "m"} {
		c.handle(d, kind)
	}
	for _, kind := range []string{"mail.a", "mail.vip.a", "mail.vip.one", "mail", "m", "mail."} {
		r.db.Exec(t, "select lockstep.enqueue($1), lockstep.enqueue($1, ordering_key => 'a')", kind)
	}
	r.runUntilIdle(d)
	// The lane waits behind the job of kind mail.
	c.expect(t, "default/m by m", "default/mail. by mail.*", "default/mail.a by mail.*", "default/mail.a by mail.*",
		"default/mail.vip.a by mail.vip.*", "default/mail.vip.a by mail.vip.*", "default/mail.vip.one by mail.vip.one", "default/mail.vip.one by mail.vip.one")
}

// TestKindsOfAQueue: a queue runs its own kinds only, though the other's
// handler would fit, in the claim and in the hand-over.
func TestKindsOfAQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{Queues: map[string]dispatcher.Queue{"a": {Kinds: []string{"x"}}, "b": {Kinds: []string{"*"}}, "c": {}}})
	var c catcher
	c.handle(d, "x")
	c.handle(d, "*")
	r.db.Exec(t, `select lockstep.enqueue(k, queue => q, ordering_key => 'k') from unnest('{a,b,c}'::text[]) q, unnest('{x,y}'::text[]) k`)
	r.runUntilIdle(d)
	c.expect(t, "a/x by x", "b/x by *", "b/y by *", "c/x by x", "c/y by *")
	if left := testdb.Value[string](t, r.db, "select string_agg(queue || '/' || kind, ' ') from lockstep.job"); left != "a/y" {
		t.Errorf("left are %q", left)
	}

	d = r.dispatcher(dispatcher.Config{Queues: map[string]dispatcher.Queue{"a": {Kinds: []string{"z"}}}})
	c.handle(d, "x")
	if err := d.RunUntilIdle(r.Context()); err == nil {
		t.Error("a queue's kind without a handler was taken")
	}
}

// TestWithhold: what is withheld stays, whoever else would meet it, and runs
// when it is restored, without a poll.
func TestWithhold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{})
	var c catcher
	c.handle(d, "*")
	c.handle(d, "mail.*")
	c.handle(d, "mail.one")
	d.Withhold("default", "mail.*")
	r.db.Exec(t, "select lockstep.enqueue(k) from unnest('{mail.a,mail.one,other}'::text[]) k")
	r.runUntilIdle(d)
	c.expect(t, "default/mail.one by mail.one", "default/other by *")

	r.start(d)
	r.await("a look", 1, func(e dispatcher.Event) bool { return e.Type == dispatcher.Looked })
	d.Restore("default", "mail.*")
	r.await("it ran", 1, func(e dispatcher.Event) bool { return e.Type == dispatcher.Recorded && e.Kind == "mail.a" })
}

// TestMaxJobs ends after so many jobs, over all queues; none is left claimed.
func TestMaxJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.dispatcher(dispatcher.Config{MaxJobs: 7, Queues: map[string]dispatcher.Queue{"a": {Concurrency: 2}, "b": {Concurrency: 20}, "none": {}}})
	var c catcher
	c.handle(d, "k")
	r.db.Exec(t, "select lockstep.enqueue('k', queue => q, ordering_key => i::text) from unnest('{a,b}'::text[]) q, generate_series(1, 4) i, generate_series(1, 5)")
	for ran, want := range []int{7, 7, 7, 7, 7, 5, 0} {
		r.runUntilIdle(d)
		if len(c.ran) != want {
			t.Errorf("run %d ran %d jobs, want %d", ran, len(c.ran), want)
		}
		if held := testdb.Value[int](t, r.db, "select count(*) from lockstep.job where lease_until > clock_timestamp()"); held > 0 {
			t.Errorf("%d are still claimed", held)
		}
		c.ran = nil
	}
}
