package verify_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/store/verify"
)

// TestEightDefectsInOneQueue are all found, each once, and nothing else is.
func TestEightDefectsInOneQueue(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lanes := make(map[verify.Class][]int64)
	for _, class := range []verify.Class{verify.Order, verify.Overlap, verify.Fence, verify.Twice} {
		for range 3 {
			lanes[class] = append(lanes[class], s.enqueue(string(class)))
		}
		for _, id := range lanes[class] {
			s.run(id, store.Completed)
		}
	}
	for _, class := range []verify.Class{verify.Headless, verify.Unclaimable, verify.LeasePast, verify.Missing} {
		lanes[class] = []int64{s.enqueue(string(class)), s.enqueue(string(class))}
	}
	clean(t, s.verify(verify.Config{}))

	job := func(class verify.Class, n int) int64 { return lanes[class][n] }
	s.plant(fmt.Sprintf(swap, "lane_turn"), job(verify.Order, 1), job(verify.Order, 2))
	s.plant("update lockstep.finished_job set finished_at = finished_at + interval '1 h' where id = $1", job(verify.Overlap, 1))
	s.plant("update lockstep.finished_job set fence = 1 where id = $1", job(verify.Fence, 2))
	s.plant("insert into lockstep.job (id, kind) values ($1, 'k')", job(verify.Twice, 0))
	s.plant("delete from lockstep.job where id = $1", job(verify.Headless, 0))
	s.plant("update lockstep.job set kind = 'nobody''s' where id = $1", job(verify.Unclaimable, 0))
	s.plant(`update lockstep.job set worker = gen_random_uuid(), run_at = run_at - interval '1 h', claimed_at = claimed_at - interval '1 h',
		lease_until = clock_timestamp() - interval '1 h' where id = $1`, job(verify.LeasePast, 0))
	s.plant("delete from lockstep.job where id = $1", job(verify.Missing, 1))

	report := s.verify(verify.Config{IDs: ids(lanes[verify.Missing]...)})
	var found []verify.Class
	for _, f := range report.Findings {
		found = append(found, f.Class)
		if f.Lane.OrderingKey != "" && f.Lane.OrderingKey != string(f.Class) {
			t.Errorf("in the lane of another defect: %v", f)
		}
	}
	slices.Sort(found)
	want := []verify.Class{
		verify.Fence, verify.Headless, verify.LeasePast, verify.Missing, verify.Order, verify.Overlap, verify.Twice, verify.Unclaimable,
	}
	if !slices.Equal(found, want) {
		t.Errorf("found %v, want %v; %v", found, want, report.Findings)
	}
}
