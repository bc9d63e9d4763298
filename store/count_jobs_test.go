package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestCountJobs by queue and state, the last count for whoever comes too soon.
func TestCountJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("a", 3)
	r.put("", 2)
	r.look(2)
	r.db.Exec(t, "select lockstep.enqueue('k', queue => 'later', delay => '1 h')")
	first, err := r.CountJobs(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, c := range first.Counts {
		got[c.Queue+" "+string(c.State)] = c.Jobs
		if c.Soonest == nil {
			t.Errorf("%+v has no due time", c)
		}
	}
	want := map[string]int64{"default running": 2, "default waiting": 2, "default ready": 1, "later scheduled": 1}
	if len(got) != len(want) {
		t.Errorf("counted %v", got)
	}
	for key, n := range want {
		if got[key] != n {
			t.Errorf("%s: %d, want %d", key, got[key], n)
		}
	}
	r.put("", 1)
	if again, err := r.CountJobs(t.Context(), time.Hour); err != nil || !again.CountedAt.Equal(first.CountedAt) {
		t.Errorf("counted again at %v, %v", again.CountedAt, err)
	}
	r.db.Exec(t, "update lockstep.fleet_stats set took = '1 h'")
	if again, err := r.CountJobs(t.Context(), 0); err != nil || !again.CountedAt.Equal(first.CountedAt) {
		t.Errorf("a count that takes long was made again at %v, %v", again.CountedAt, err)
	}
	r.db.Exec(t, "update lockstep.fleet_stats set took = '0'")
	if again, err := r.CountJobs(t.Context(), 0); err != nil || !again.CountedAt.After(first.CountedAt) {
		t.Errorf("not counted again: %v, %v", again.CountedAt, err)
	}
}

// TestOneCountForAll: of many who ask at once, one counts.
func TestOneCountForAll(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	var mu sync.Mutex
	times := map[time.Time]bool{}
	var group sync.WaitGroup
	for range 8 {
		s := store.New(db.Conn(t))
		group.Go(func() {
			for range 20 {
				c, err := s.CountJobs(t.Context(), time.Hour)
				if err != nil {
					t.Error(err)
				}
				if !c.CountedAt.IsZero() {
					mu.Lock()
					times[c.CountedAt] = true
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	if len(times) != 1 {
		t.Errorf("counted %d times", len(times))
	}
}
