package dispatcher

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

func testAttempt(id, fence int64, end time.Time) *attempt {
	s := &shift{Dispatcher: &Dispatcher{cfg: Config{}.withDefaults()}}
	a := &attempt{shift: s, handler: &handler{kind: "k"}, job: store.Job{ID: id, Fence: fence}, lease: lease{end: end}}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	return a
}

// TestExpire takes out what is over, a margin before its lease's end, but not
// what a run lock or an outcome under way stands for.
func TestExpire(t *testing.T) {
	t.Parallel()
	l := newLeases(30 * time.Second)
	now := time.Now()
	over, good := testAttempt(1, 1, now.Add(l.margin)), testAttempt(2, 2, now.Add(20*time.Second))
	locked, ending := testAttempt(3, 3, now), testAttempt(4, 4, now)
	for _, a := range []*attempt{over, good, locked, ending} {
		l.hold(a)
	}
	l.lock(locked)
	l.ending(ending)
	gone, next := l.expire(now)
	if len(gone) != 1 || gone[0] != over || !next.Equal(now.Add(20*time.Second-l.margin)) {
		t.Errorf("gone %v, next in %v", gone, next.Sub(now))
	}
	if n := l.count(); n != 3 {
		t.Errorf("%d held, want 3", n)
	}
	l.unlock(locked)
	if gone, _ := l.expire(now); len(gone) != 1 || gone[0] != locked {
		t.Errorf("gone %v", gone)
	}
}

// TestWatchInTime: also for a claim whose answer took so long that its lease
// ends before anything that watch waits for.
func TestWatchInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLeases(30 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.watch(ctx)
		}()
		synctest.Wait()
		time.Sleep(7 * time.Second)
		late := testAttempt(1, 1, time.Now().Add(22*time.Second))
		l.hold(late)
		time.Sleep(20*time.Second - 1)
		synctest.Wait()
		if late.ctx.Err() != nil {
			t.Error("the context ends too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if context.Cause(late.ctx) != ErrLeaseLost {
			t.Error("the context does not end a margin before the lease")
		}
		cancel()
		<-done
	})
}

// TestExtended: an answer counts for the claim it was about alone.
func TestExtended(t *testing.T) {
	t.Parallel()
	l := newLeases(30 * time.Second)
	now := time.Now()
	a := testAttempt(1, 7, now)
	l.hold(a)
	if l.extended(store.Claim{ID: 1, Fence: 6}, store.ExtendLost, now) != nil || l.count() != 1 {
		t.Error("an old claim's answer counts")
	}
	if l.extended(a.claim(), store.Extended, now) != nil || !l.end(a).Equal(now.Add(30*time.Second)) {
		t.Errorf("extended to %v", l.end(a).Sub(now))
	}
	if l.extended(a.claim(), store.ExtendBusy, now.Add(time.Second)) != nil || !l.end(a).Equal(now.Add(30*time.Second)) {
		t.Error("busy extends")
	}
	if l.extended(a.claim(), store.ExtendCancelled, now) != a || l.count() != 1 {
		t.Error("a cancel is not told, or ends the lease")
	}
	if l.extended(a.claim(), store.ExtendLost, now) != a || l.count() != 0 {
		t.Error("a loss is not told, or the lease is kept")
	}
}

// TestClaimedAnew: of two attempts at one job the older one has lost it.
func TestClaimedAnew(t *testing.T) {
	t.Parallel()
	l := newLeases(time.Second)
	older, newer := testAttempt(1, 1, time.Now()), testAttempt(1, 2, time.Now())
	l.hold(older)
	l.hold(newer)
	if context.Cause(older.ctx) != ErrLeaseLost || newer.ctx.Err() != nil {
		t.Errorf("older %v, newer %v", context.Cause(older.ctx), newer.ctx.Err())
	}
	l.drop(older)
	if l.count() != 1 {
		t.Error("dropping the older dropped the newer")
	}
}
