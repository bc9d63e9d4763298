package order_test

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// plan says how large a run is, and what goes on in it.
type plan struct {
	producers    int
	transactions int // of each producer
	lanes        int
	workers      int           // dispatchers
	slots        int           // of each worker
	pause        time.Duration // the longest one before and after an insert
	work         time.Duration // the longest one in a handler

	// Shares, from 0 to 1.
	attended   float64 // of the transactions while the workers work; then they are away, and come back in the end
	rollbacks  float64 // of transactions
	savepoints float64 // of inserts that come after one that is rolled back to a savepoint
	repeatable float64 // of transactions that are REPEATABLE READ
	scheduled  float64 // of jobs
	failures   float64 // of attempts

	cancelEvery time.Duration
	cancelStay  time.Duration // how long a cancel's transaction stays open at most
	cancelDepth int           // how far behind its head a job is cancelled at most
	deleteEvery time.Duration // zero: no head is deleted
	pauseEvery  time.Duration // zero: nothing is paused
	pauseFor    time.Duration // the longest one
}

// full is what the promise is shown with.
func full() plan {
	return plan{
		producers: 12, transactions: 500, lanes: 20, workers: 6, slots: 4,
		pause: 2 * time.Millisecond, work: 2 * time.Millisecond,
		attended: 0.6, rollbacks: 0.05, savepoints: 0.1, repeatable: 0.1, scheduled: 0.1, failures: 0.1,
		cancelEvery: 3 * time.Millisecond, cancelStay: time.Millisecond, cancelDepth: 20, deleteEvery: time.Second,
		pauseEvery: 15 * time.Millisecond, pauseFor: 20 * time.Millisecond,
	}
}

// small is full in less time, with as much trouble.
func small() plan {
	p := full()
	p.transactions = 80
	p.deleteEvery = 300 * time.Millisecond
	return p
}

// crowded is where a missing rule shows soonest: few lanes, commits in heaps, a
// backlog, and cancels that are after the very jobs that are promoted, but
// leave enough of them to see a lane that is stuck.
func crowded() plan {
	p := full()
	p.transactions, p.lanes, p.workers, p.attended = 50, 4, 2, 0
	p.pause, p.repeatable, p.scheduled, p.deleteEvery = 0, 0, 0, 0
	p.cancelEvery, p.cancelStay, p.cancelDepth = 8*time.Millisecond, 4*time.Millisecond, 1
	return p
}

func (p plan) lane(n int) string { return fmt.Sprintf("lane-%02d", n) }

// draw is the source of one goroutine's decisions.
type draw struct{ *rand.Rand }

// drawFor gives each part of a run a stream of its own.
func drawFor(seed, stream uint64) draw { return draw{rand.New(rand.NewPCG(seed, stream))} }

func (d draw) chance(share float64) bool { return d.Float64() < share }

// rest pauses for up to most.
func (d draw) rest(most time.Duration) { time.Sleep(time.Duration(d.Int64N(int64(most) + 1))) }

func (d draw) lane(p plan) string { return p.lane(d.IntN(p.lanes)) }
