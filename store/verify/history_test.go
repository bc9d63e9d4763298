package verify_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/store/verify"
)

// threeInALane is the history that defects are planted in: three jobs of a lane,
// all committed before the first one ran; the second had to be tried again.
func threeInALane(t *testing.T) (s *stage, ids [3]int64) {
	t.Helper()
	s = newStage(t)
	for i := range ids {
		ids[i] = s.enqueue("a")
	}
	s.run(ids[0], store.Completed)
	s.run(ids[1], store.Failed, store.Completed)
	s.run(ids[2], store.Completed)
	clean(t, s.verify(verify.Config{}))
	return s, ids
}

// swap exchanges a column's values between two finished jobs.
const swap = `update lockstep.finished_job f set %[1]s = o.%[1]s from lockstep.finished_job o
	where f.id in ($1, $2) and o.id in ($1, $2) and f.id <> o.id`

func TestFindsAJobThatRanAgainstTheCommitOrder(t *testing.T) {
	t.Parallel()
	s, ids := threeInALane(t)
	for _, column := range []string{"enqueued_xid", "created_at", "run_at"} {
		s.plant(fmt.Sprintf(swap, column), ids[0], ids[2])
	}
	report := s.verify(verify.Config{})
	// So was the second; but that it was due at once is no longer known of a job
	// that was tried again.
	f := s.found(report, verify.Order, `ordering key "a"`, "which was not there before")
	if f.IDs[0] != ids[0] || f.IDs[1] != ids[2] {
		t.Errorf("found jobs %v, want %d and %d", f.IDs, ids[0], ids[2])
	}
	if report.Checked.Timed != 3 {
		t.Errorf("%d jobs had a commit time, want 3", report.Checked.Timed)
	}
}

// TestCommitTimesOfARestoredDatabase are not those of the jobs that came with it:
// the numbers of their transactions are others' here.
func TestCommitTimesOfARestoredDatabase(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]string{
		"not adopted yet": "update lockstep.home set database_oid = 1",
		"adopted":         "update lockstep.home set recorded_at = clock_timestamp()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			first, second := s.enqueue("a"), s.enqueue("a")
			s.plant(`update lockstep.job j set enqueued_xid = o.enqueued_xid, created_at = o.created_at, run_at = o.run_at
				from lockstep.job o where j.id in ($1, $2) and o.id in ($1, $2) and j.id <> o.id`, first, second)
			s.found(s.verify(verify.Config{}), verify.Order, "which was not there before")
			s.plant(how)
			report := s.verify(verify.Config{})
			clean(t, report)
			if report.Checked.Untimed != 2 || !report.CommitTimes {
				t.Errorf("checked %+v, want two jobs whose commit times are not known", report.Checked)
			}
		})
	}
}

func TestFindsAPlaceThatWasNotKept(t *testing.T) {
	t.Parallel()
	s, ids := threeInALane(t)
	s.plant(fmt.Sprintf(swap, "lane_turn"), ids[0], ids[1])
	s.found(s.verify(verify.Config{}), verify.Order, "whose place is")
}

func TestFindsAWaitingJobThatWasOvertaken(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first, second := s.enqueue("a"), s.enqueue("a")
	s.run(first, store.Completed)
	s.claim(second)
	third := s.enqueue("a")
	clean(t, s.verify(verify.Config{}))
	s.plant("update lockstep.job set lane_turn = 1 where id = $1", third)
	s.found(s.verify(verify.Config{}), verify.Order, fmt.Sprintf("job %d", third), "waits after")
}

func TestFindsAJobThatRanAgainstTheOrderOfItsTransaction(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.sql("begin")
	ids := []int64{s.enqueue("a"), s.enqueue("a")}
	s.sql("commit")
	s.run(ids[0], store.Completed)
	s.run(ids[1], store.Completed)
	clean(t, s.verify(verify.Config{}))
	s.plant("update lockstep.finished_job set id = 1000 - id")
	s.found(s.verify(verify.Config{}), verify.Order, "the same transaction inserted after it")
}

func TestFindsAJobThatRanBeforeItWasDue(t *testing.T) {
	t.Parallel()
	s, ids := threeInALane(t)
	s.plant("update lockstep.finished_job set run_at = claimed_at + interval '1 s' where id = $1", ids[0])
	s.found(s.verify(verify.Config{}), verify.Order, "before it fell due")
}

func TestFindsOverlappingAttempts(t *testing.T) {
	t.Parallel()
	s, ids := threeInALane(t)
	s.plant("update lockstep.finished_job set finished_at = finished_at + interval '1 h' where id = $1", ids[1])
	f := s.found(s.verify(verify.Config{}), verify.Overlap, fmt.Sprintf("job %d (fence", ids[2]), "before the attempt of job")
	if f.IDs[0] != ids[1] || f.IDs[1] != ids[2] {
		t.Errorf("found jobs %v, want %d and %d", f.IDs, ids[1], ids[2])
	}
}

func TestFindsARetryThatOverlapsTheAttemptBeforeIt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	id := s.enqueue("") // without a key: its own lane
	s.run(id, store.Failed, store.Completed)
	clean(t, s.verify(verify.Config{}))
	s.plant("update lockstep.attempt set ended_at = ended_at + interval '1 h'")
	s.found(s.verify(verify.Config{}), verify.Overlap, `queue "default": job`)
}

func TestFindsAClaimWhileTheLeaseOfAnotherHolds(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ids := []int64{s.enqueue("a"), s.enqueue("a")}
	s.claim(ids[0])
	clean(t, s.verify(verify.Config{}))
	s.plant("alter table lockstep.job drop constraint job_kind_length") // any change of the user's own
	s.sql("drop index lockstep.job_head")
	s.plant("update lockstep.job set stage = 'r' where id = $1", ids[1])
	s.claim(ids[1])
	s.found(s.verify(verify.Config{}), verify.Overlap, "before the attempt")
}

func TestFindsAFenceThatDidNotGrow(t *testing.T) {
	t.Parallel()
	s, ids := threeInALane(t)
	s.plant("update lockstep.finished_job set fence = 1 where id = $1", ids[2])
	s.found(s.verify(verify.Config{}), verify.Fence, fmt.Sprintf("job %d", ids[2]), "with fence 1")
}

func TestFindsAFenceGivenOutTwice(t *testing.T) {
	t.Parallel()
	s, ids := threeInALane(t)
	s.plant("update lockstep.finished_job f set fence = o.fence from lockstep.finished_job o where f.id = $2 and o.id = $1", ids[0], ids[1])
	// The attempt that failed had a greater one.
	s.found(s.verify(verify.Config{}), verify.Fence, fmt.Sprintf("job %d", ids[1]))
}

// TestLawfulOrder has what looks like a defect, and is none.
func TestLawfulOrder(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(s *stage){
		"a scheduled job takes its place when due": func(s *stage) {
			early := s.add(store.NewJob{Kind: "k", OrderingKey: "a", RunAt: time.Now().Add(24 * time.Hour)})
			late := s.enqueue("a")
			s.run(late, store.Completed)
			s.sql("update lockstep.job set run_at = clock_timestamp()")
			s.sql("select lockstep.due()")
			s.run(early, store.Completed)
		},
		"a job replayed after the lane went on": func(s *stage) {
			first, second := s.enqueue("a"), s.enqueue("a")
			s.run(first, store.Failed, store.Dead)
			s.run(second, store.Completed)
			s.sql("select lockstep.replay($1)", first)
			s.run(first, store.Snoozed, store.Completed)
			s.run(s.enqueue("a"), store.Completed)
		},
		"a job replayed into a lane that is busy, before another": func(s *stage) {
			first, second := s.enqueue("a"), s.enqueue("a")
			s.run(first, store.Dead)
			s.claim(second)
			s.sql("select lockstep.replay($1)", first)
			s.enqueue("a")
		},
		"a job replayed in its place": func(s *stage) {
			s.sql("select lockstep.set_queue('default', on_dead => 'block')")
			first := s.enqueue("a")
			s.run(first, store.Dead)
			second := s.enqueue("a")
			s.sql("select lockstep.replay($1)", first)
			clean(s, s.verify(verify.Config{}))
			s.run(first, store.Released, store.Completed)
			s.run(second, store.Completed)
		},
		"a head skipped and replayed": func(s *stage) {
			first, second := s.enqueue("a"), s.enqueue("a")
			s.run(first, store.Failed)
			s.sql("select lockstep.skip_head('default', '', 'a')")
			s.run(second, store.Completed)
			s.sql("select lockstep.replay($1)", first)
			s.run(first, store.Completed)
		},
		"a retrying head cancelled": func(s *stage) {
			first, second := s.enqueue("a"), s.enqueue("a")
			s.run(first, store.Failed)
			s.sql("select lockstep.cancel($1)", first)
			s.run(second, store.Completed)
		},
		"a lost attempt": func(s *stage) {
			first, second := s.enqueue("a"), s.enqueue("a")
			s.claim(first)
			s.sql("update lockstep.job set lease_until = clock_timestamp() - interval '1 s' where id = $1", first)
			s.run(first, store.Completed)
			s.run(second, store.Completed)
		},
		"fences moved ahead": func(s *stage) {
			s.run(s.enqueue("a"), store.Completed)
			s.sql("select lockstep.after_failover()")
			s.run(s.enqueue("a"), store.Completed)
		},
		"repeatable read": func(s *stage) {
			first := s.enqueue("a")
			s.sql("begin isolation level repeatable read")
			second := s.enqueue("a")
			s.sql("commit")
			s.run(first, store.Completed)
			s.run(second, store.Completed)
		},
		"a transaction that began earlier and committed later": func(s *stage) {
			s.sql("begin")
			late := s.enqueue("a")
			other := &stage{TB: s.TB, db: s.db, conn: s.db.Conn(s), worker: s.worker}
			early := other.enqueue("a")
			s.sql("commit")
			s.run(early, store.Completed)
			s.run(late, store.Completed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			play(s)
			clean(t, s.verify(verify.Config{}))
		})
	}
}

// TestALaneNamedLikeAJobWithoutAKey is another one, though they take turns.
func TestALaneNamedLikeAJobWithoutAKey(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	id := s.enqueue("")
	s.run(id, store.Failed)
	other := s.enqueue(fmt.Sprint(id))
	s.sql("update lockstep.job set turn = 0 where id = $1", other)
	s.run(other, store.Completed)
	s.run(id, store.Completed)
	s.run(s.enqueue(fmt.Sprint(id)), store.Completed)
	report := s.verify(verify.Config{})
	clean(t, report)
	if report.Checked.Lanes != 1 {
		t.Errorf("%d lanes, want 1", report.Checked.Lanes)
	}
	s.plant("update lockstep.attempt set ended_at = ended_at + interval '1 h'")
	s.found(s.verify(verify.Config{}), verify.Overlap, fmt.Sprintf("job %d", id))
}
