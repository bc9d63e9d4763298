package verify_test

import (
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/store/verify"
)

// park adds n jobs of a tenant, pauses a scope that covers them, and has claims
// set them aside.
func (s *stage) park(scope store.Scope, job store.NewJob, n int) (ids []int64) {
	s.Helper()
	job.Kind = "k"
	for range n {
		ids = append(ids, s.add(job))
	}
	db := store.New(s.conn)
	if _, err := db.Pause(s.Context(), scope, store.PauseNote{}); err != nil {
		s.Fatal(err)
	}
	got, err := db.Claim(s.Context(), store.ClaimArgs{Worker: s.worker, Queue: "default", Kinds: []string{"k"}, Max: 1, Lease: time.Minute})
	if err != nil || got.Parked != n {
		s.Fatalf("claimed %+v, %v; want %d jobs parked", got, err, n)
	}
	return ids
}

func TestFindsJobsThatAreParkedWithoutAPause(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ids := s.park(store.Scope{Tenant: "t"}, store.NewJob{Tenant: "t"}, 7)
	keyed := s.park(store.Scope{Queue: "default", OrderingKey: "a"}, store.NewJob{OrderingKey: "a"}, 1)
	clean(t, s.verify(verify.Config{}))
	s.plant("delete from lockstep.pause")
	report := s.verify(verify.Config{Patience: time.Nanosecond})
	f := s.found(report, verify.Parked, "8 jobs")
	if f.Lane != (verify.Lane{Queue: "default", OrderingKey: "a"}) || f.Jobs != 8 || len(f.IDs) != 5 || f.IDs[0] != keyed[0] || f.IDs[1] != ids[0] {
		t.Errorf("found %+v, want it about job %d and then %v", f, keyed[0], ids)
	}
	if len(report.Notices) != 0 {
		t.Errorf("notices = %v, want none of jobs that no resume helps", report.Notices)
	}
	s.sql("select lockstep.unpark()")
	clean(t, s.verify(verify.Config{}))
}

// TestJobsSetAsideByAPauseAreANotice, whichever pause it is that covers them,
// and those of others are none.
func TestJobsSetAsideByAPauseAreANotice(t *testing.T) {
	t.Parallel()
	keyed := store.NewJob{Tenant: "t", OrderingKey: "a"}
	for name, test := range map[string]struct {
		scope store.Scope
		job   store.NewJob
	}{
		"tenant everywhere":      {store.Scope{Tenant: "t"}, store.NewJob{Tenant: "t"}},
		"tenant of a queue":      {store.Scope{Queue: "default", Tenant: "t"}, store.NewJob{Tenant: "t"}},
		"tenant, a job of a key": {store.Scope{Tenant: "t"}, keyed},
		"key of a tenant":        {store.Scope{Queue: "default", Tenant: "t", OrderingKey: "a"}, keyed},
		"key without a tenant":   {store.Scope{Queue: "default", OrderingKey: "a"}, store.NewJob{OrderingKey: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			id := s.park(test.scope, test.job, 1)[0]
			report := s.verify(verify.Config{})
			clean(t, report)
			if len(report.Notices) != 1 || report.Notices[0].Class != verify.Paused || report.Notices[0].IDs[0] != id {
				t.Errorf("notices = %v, want one of the pause that covers job %d", report.Notices, id)
			}
			// Pauses that come near it, and do not cover it.
			s.plant(`update lockstep.pause set scope = 'tenant', queue = 'other', tenant = 't', ordering_key = ''`)
			s.plant(`insert into lockstep.pause (scope, queue, kind, tenant, ordering_key) values ('queue', 'default', '', '', ''),
				('kind', '', 'k', '', ''), ('kind', 'default', 'k', '', ''), ('tenant', '', '', 'other', ''), ('key', 'default', '', 't', 'b'),
				('key', 'other', '', 't', 'a'), ('key', 'other', '', '', 'a'), ('key', 'default', '', 'other', 'a')`)
			s.found(s.verify(verify.Config{}), verify.Parked, "1 job ")
		})
	}
}

// TestAResumeUnderWayIsNoFinding: what it has left returns by and by.
func TestAResumeUnderWayIsNoFinding(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.park(store.Scope{Tenant: "t"}, store.NewJob{Tenant: "t"}, 7)
	s.plant("delete from lockstep.pause")
	clean(t, s.between("select lockstep.unpark(1)"))
	s.found(s.verify(verify.Config{Patience: time.Nanosecond}), verify.Parked, "6 jobs")
}
