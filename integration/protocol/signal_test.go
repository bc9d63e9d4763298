package protocol_test

import (
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// TestWhateverMakesAJobRunnableSignals: a lane's next job, or a due time that
// others do not know of.
func TestWhateverMakesAJobRunnableSignals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		before func(*scene) // the state to start from
		act    func(*scene)
		want   string
	}{
		{"insert without a key", nil, func(s *scene) { s.put("", "x") }, "r"},
		{"many inserts without a key", nil, func(s *scene) {
			s.exec("begin")
			s.put("", "x", "y")
			s.exec("insert into lockstep.job (kind) select 'k' from generate_series(1, 100); commit")
		}, "r"},
		{"insert with a key", nil, func(s *scene) { s.put("l", "x") }, "r"},
		{"insert to wait", nil, func(s *scene) { s.put("k", "x") }, ""},
		{"a savepoint rolled back", nil, func(s *scene) {
			s.exec("begin; savepoint s")
			s.put("", "x")
			s.exec("rollback to s")
			s.put("", "y")
			s.exec("commit")
		}, "r"},
		{"scheduled", nil, func(s *scene) { s.schedule("1 hour", "2 hours", "3 hours") }, "d"},
		{"scheduled sooner and sooner", nil, func(s *scene) { s.schedule("3 hours", "2 hours", "1 hour") }, "d d d"},
		{"falls due", func(s *scene) { s.schedule("1 hour") }, func(s *scene) { s.nextDue() }, "r"},
		{"REPEATABLE READ", nil, func(s *scene) {
			s.exec("begin isolation level repeatable read")
			s.put("l", "x")
			s.exec("commit")
		}, "w"},
		{"sweep", func(s *scene) { s.exec("delete from lockstep.job where payload ->> 'n' = 'a'") }, func(s *scene) {
			s.exec("select lockstep.sweep()")
		}, "r"},
		{"promoted by an insert", func(s *scene) { s.exec("delete from lockstep.job where payload ->> 'n' = 'a'") }, func(s *scene) { s.put("k", "x") }, "r"},
		{"completed", nil, func(s *scene) { s.finish(store.Completed, s.claimOne()) }, "r"},
		{"completed and taken over", nil, func(s *scene) {
			_, err := s.report(store.FinishArgs{Take: []string{"k"}}, store.Completed, s.claimOne())
			must("finish", err)
		}, ""},
		{"dead", nil, func(s *scene) { s.finish(store.Dead, s.claimOne()) }, "r"},
		{"released", nil, func(s *scene) { s.finish(store.Released, s.claimOne()) }, "r"},
		{"failed", nil, func(s *scene) { s.finish(store.Failed, s.claimOne()) }, "r"},
		{"failed, with backoff", nil, func(s *scene) {
			job := s.claimOne()
			s.exec("select lockstep.fail($1, $2, $3, 'no')", s.worker, job.ID, job.Fence)
		}, "d"},
		{"cancelled head", nil, func(s *scene) { s.exec("select lockstep.cancel(id) from lockstep.job where payload ->> 'n' = 'a'") }, "r"},
		{"cancelled while it runs", nil, func(s *scene) { s.exec("select lockstep.cancel($1)", s.claimOne().ID) }, "c"},
		{"worker lost", func(s *scene) {
			s.claimOne()
			s.exec("update lockstep.job set max_attempts = 1")
			s.expire()
		}, func(s *scene) { s.enter().claim(1) }, "r"},
		{"worker lost again", func(s *scene) {
			s.claimOne()
			s.exec("update lockstep.job set lost = 1")
			s.expire()
		}, func(s *scene) { s.enter().claim(1) }, "d"},
		{"replayed in its place", (*scene).blocked, func(s *scene) { s.exec("select lockstep.replay(id) from lockstep.dead_job") }, "r"},
		{"unblocked", (*scene).blocked, func(s *scene) { s.exec("select lockstep.unblock_lane('default', '', 'k')") }, "r"},
		{"discarded", (*scene).blocked, func(s *scene) { s.exec("select lockstep.discard(id) from lockstep.dead_job") }, "r"},
		{"policy changed", (*scene).blocked, func(s *scene) { s.exec("select lockstep.set_queue('default', on_dead => 'skip')") }, "r"},
		{"skipped", nil, func(s *scene) { s.exec("select lockstep.skip_head('default', '', 'k')") }, "r"},
		{"replayed", func(s *scene) {
			s.exec("delete from lockstep.job where payload ->> 'n' = 'b'")
			s.finish(store.Dead, s.claimOne())
		}, func(s *scene) { s.exec("select lockstep.replay(id) from lockstep.dead_job") }, "r"},
		{"cancelled beside a producer", func(s *scene) {
			s.exec("delete from lockstep.job where payload ->> 'n' = 'b'")
			producer := s.enter()
			producer.exec("begin")
			producer.put("k", "x")
			producer.exec("set constraints all immediate")
		}, func(s *scene) { s.exec("select lockstep.cancel(id) from lockstep.job") }, "d"},
		{"a shorter lease", nil, func(s *scene) {
			_, err := s.store.Register(s.t.Context(), store.Registration{Worker: s.worker, Queues: []string{"default"}, Kinds: []string{"k"}, Lease: time.Second})
			must("register", err)
		}, "d"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			run(t, func(s *scene) {
				s.put("k", "a", "b")
				if test.before != nil {
					test.before(s)
				}
				listener := s.enter()
				listener.listen()
				test.act(s)
				want("signals", listener.signals(), test.want)
			})
		})
	}
}

// schedule enqueues jobs due later, in one transaction.
func (s *scene) schedule(delays ...string) {
	s.exec("begin")
	for _, delay := range delays {
		s.exec("insert into lockstep.job (kind, run_at) values ('k', clock_timestamp() + $1::interval)", delay)
	}
	s.exec("commit")
}

// blocked has the head of lane k die and block it.
func (s *scene) blocked() {
	s.exec("select lockstep.set_queue('default', on_dead => 'block')")
	want("finish", s.finish(store.Dead, s.claimOne()), "done")
}
