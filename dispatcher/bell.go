package dispatcher

import "sync"

// Reason is why a queue is looked at.
type Reason int

// The reasons, the best first: a look has the best of those that led to it.
const (
	BySignal  Reason = iota // a notification
	ByTimer                 // a due time or a lease end, or a slot freed for what was known to be there
	ByCatchUp               // the start, or LISTEN stands on a new connection
	ByPoll                  // nothing but the time that had passed: what it finds had lost its signal
	reasonCount
)

// String returns the reason as logs and metrics spell it.
func (r Reason) String() string {
	return [...]string{"signal", "timer", "catch-up", "poll"}[r]
}

// reasons is a set of them.
type reasons uint8

func (rs *reasons) add(r Reason) { *rs |= 1 << r }

// best is the reason to give for a look; false if there is none.
func (rs reasons) best() (Reason, bool) {
	for r := range reasonCount {
		if rs&(1<<r) != 0 {
			return r, true
		}
	}
	return 0, false
}

// bell wakes a loop. However often it rings before the loop looks, the loop
// looks once, and sees every reason since the last look.
type bell struct {
	c    chan struct{}
	mu   *sync.Mutex
	rung *reasons
}

func newBell() bell {
	return bell{c: make(chan struct{}, 1), mu: new(sync.Mutex), rung: new(reasons)}
}

// ring never blocks.
func (b bell) ring(r Reason) {
	b.mu.Lock()
	b.rung.add(r)
	b.mu.Unlock()
	b.nudge()
}

// nudge wakes the loop without giving it a reason of its own.
func (b bell) nudge() {
	select {
	case b.c <- struct{}{}:
	default: // it is going to look anyway
	}
}

// answer takes what rang. It comes before the look: what rings during the look
// then leads to another one.
func (b bell) answer() reasons {
	b.mu.Lock()
	defer b.mu.Unlock()
	rung := *b.rung
	*b.rung = 0
	return rung
}
