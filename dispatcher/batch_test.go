package dispatcher

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// TestBatchRules: whatever waits, a batch keeps to the rules of one call, takes
// what comes first, and leaves the rest in its order.
func TestBatchRules(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		now := time.Now()
		var waiting []*report
		keyed := random.Float64()
		for range random.IntN(1500) {
			waiting = append(waiting, randomReport(random, keyed, now))
		}
		f := &finisher{waiting: slices.Clone(waiting)}
		var b batch
		soonest := f.gather(&b, now)
		if problem := wrongBatch(b); problem != "" {
			t.Fatalf("seed %d: %s", seed, problem)
		}
		first := slices.IndexFunc(waiting, func(r *report) bool { return !r.at.After(now) })
		if first >= 0 && (len(b.reports) == 0 || b.reports[0] != waiting[first]) {
			t.Fatalf("seed %d: the first one waits", seed)
		}
		if problem := wrongRest(waiting, b.reports, f.waiting, now, soonest); problem != "" {
			t.Fatalf("seed %d: %s", seed, problem)
		}
	}
}

func randomReport(random *rand.Rand, keyed float64, now time.Time) *report {
	r := &report{attempt: &attempt{}, alone: random.IntN(50) == 0}
	r.ID = random.Int64N(1200)
	if random.Float64() < keyed {
		r.attempt.job.OrderingKey = "key"
	}
	if random.IntN(2) == 0 {
		r.taker = make(chan *attempt, 1)
	}
	if random.IntN(8) == 0 {
		r.at = now.Add(time.Duration(1+random.IntN(500)) * time.Millisecond)
	}
	return r
}

// wrongRest compares what was sent and what is left with what there was.
func wrongRest(all, sent, left []*report, now, soonest time.Time) string {
	for _, r := range all {
		switch {
		case len(sent) > 0 && sent[0] == r && !r.at.After(now):
			sent = sent[1:]
		case len(left) > 0 && left[0] == r:
			left = left[1:]
			if r.at.After(now) && soonest.After(r.at) {
				return "the soonest is not the soonest"
			}
		default:
			return "out of order, or sent too early"
		}
	}
	if len(sent)+len(left) > 0 {
		return "more came out than went in"
	}
	return ""
}

func wrongBatch(b batch) string {
	jobs, keyed := map[int64]bool{}, 0
	for _, r := range b.reports {
		if jobs[r.ID] {
			return "a job is in it twice"
		}
		jobs[r.ID] = true
		if r.attempt.keyed() {
			keyed++
			if (r.taker != nil) != b.take {
				return "slots that wait go with slots that are gone"
			}
		}
		if r.alone && len(b.reports) > 1 {
			return "one that must go alone does not"
		}
	}
	if keyed > maxKeyed || len(b.reports) > maxReports {
		return fmt.Sprintf("%d reports, %d keyed", len(b.reports), keyed)
	}
	return ""
}

// TestBatchBytes: large results do not add up to a statement without bounds.
func TestBatchBytes(t *testing.T) {
	t.Parallel()
	var b batch
	size := 0
	for i := range 200 {
		r := &report{attempt: &attempt{}, Finish: store.Finish{Claim: store.Claim{ID: int64(i)}, Result: make([]byte, 64<<10)}}
		if b.add(r) {
			size += len(r.Result)
		}
	}
	if size > maxBytes || size < maxBytes-64<<10 {
		t.Errorf("%d bytes in a batch, want almost %d", size, maxBytes)
	}
}
