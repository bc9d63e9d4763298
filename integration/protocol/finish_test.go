package protocol_test

import (
	"errors"
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

// TestALateReportOfALostJobIsLost, also when nobody else will run the job.
func TestALateReportOfALostJobIsLost(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		for _, ending := range []string{"dead", "cancelled", "again"} {
			s.put("k", ending)
			late, rival := s.enter(), s.enter()
			job := late.claimOne()
			switch ending {
			case "dead":
				s.exec("update lockstep.job set max_attempts = 1")
			case "cancelled":
				want("cancel", value[string](s.session, "select lockstep.cancel($1)", job.ID), "requested")
			}
			s.expire()
			again := rival.claim(10)
			want(ending+": finish", late.finish(store.Completed, job), "lost")
			want(ending+": heartbeat", late.extend(job), "lost")
			rival.finish(store.Completed, again...)
		}
		want("left", value[int](s.session, "select count(*) from lockstep.job"), 0)
	})
}

// TestALateReportDoesNotTouchWhatIsSettled: the job died as its worker was
// lost, and its lane can't move on yet.
func TestALateReportDoesNotTouchWhatIsSettled(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.put("k", "a", "b")
		late, rival, somebody := s.enter(), s.enter(), s.enter()
		job := late.claimOne()
		s.exec("update lockstep.job set max_attempts = 1")
		s.expire()
		somebody.exec("begin; select from lockstep.job where payload ->> 'n' = 'b' for update")
		want("jobs taken by a rival", len(rival.claim(10)), 0)
		want("lane", s.lane("k"), "a:settled b:w")
		want("finish", late.finish(store.Completed, job), "lost")
		want("heartbeat", late.extend(job), "lost")
		somebody.exec("commit")
		want("finish", late.finish(store.Completed, job), "lost")
		moved, err := s.store.Due(t.Context(), 200)
		must("due", err)
		want("retired", moved.Retired, 1)
		want("lane", s.lane("k"), "b:r")
		want("dead", value[int](s.session, "select count(*) from lockstep.dead_job"), 1)
	})
}

// TestARepeatedReportIsKnown for every way to end.
func TestARepeatedReportIsKnown(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		for _, outcome := range []store.Outcome{store.Completed, store.Failed, store.Dead, store.Snoozed, store.Released, store.Cancelled} {
			for _, key := range []string{"", "k"} {
				s.exec("delete from lockstep.job")
				s.put(key, "a", "b")
				job := s.claim(1)[0]
				want(string(outcome), s.finish(outcome, job), "done")
				want(string(outcome)+" again", s.finish(outcome, job), "already")
				want(string(outcome)+", then completed", s.finish(store.Completed, job), "already")
			}
		}
	})
}

func TestAReportGivenTwiceIsRefused(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.put("", "a")
		job := s.claimOne()
		_, err := s.report(store.FinishArgs{}, store.Failed, job, job)
		want("refused", errors.Is(err, store.ErrInvalid), true)
		want("finish", s.finish(store.Failed, job), "done")
	})
}

func TestBeyond200LanesAFinishIsBusy(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("insert into lockstep.job (kind, ordering_key) select 'k', i::text from generate_series(1, 250) i")
		s.put("", "a")
		jobs := s.claim(300)
		answers, err := s.report(store.FinishArgs{}, store.Completed, jobs...)
		must("finish", err)
		states := make(map[store.FinishState]int)
		for _, answer := range answers {
			states[answer.State]++
		}
		want("done", states[store.FinishDone], 201)
		want("busy", states[store.FinishBusy], 50)
	})
}
