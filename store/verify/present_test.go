package verify_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/store/verify"
)

func TestFindsALaneWithoutAHead(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	head, next := s.enqueue("a"), s.enqueue("a")
	s.enqueue("a")
	clean(t, s.verify(verify.Config{}))
	s.plant("delete from lockstep.job where id = $1", head)
	f := s.found(s.verify(verify.Config{}), verify.Headless, "2 jobs wait")
	if f.Lane != (verify.Lane{Queue: "default", OrderingKey: "a"}) || f.Jobs != 2 || f.IDs[0] != next {
		t.Errorf("found %+v", f)
	}
}

func TestFindsAJobThatNoTriggerPlaced(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.plant("insert into lockstep.job (kind, ordering_key, stage) values ('k', 'a', 'e')")
	s.found(s.verify(verify.Config{}), verify.Headless, "1 job waits")
}

// TestWhatRepairsItselfIsNoFinding: a sweep comes between the two looks.
func TestWhatRepairsItselfIsNoFinding(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	head := s.enqueue("a")
	s.enqueue("a")
	s.plant("delete from lockstep.job where id = $1", head)
	clean(t, s.between("select lockstep.sweep()"))
}

func TestWhatLastsIsFoundAtTheSecondLook(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	head := s.enqueue("a")
	s.enqueue("a")
	s.plant("delete from lockstep.job where id = $1", head)
	s.found(s.verify(verify.Config{Patience: time.Nanosecond}), verify.Headless)
}

// TestWaitsForTheSecondLook, and says so, and stops when it is told to.
func TestWaitsForTheSecondLook(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	head := s.enqueue("a")
	s.enqueue("a")
	s.plant("delete from lockstep.job where id = $1", head)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	report, err := verify.Run(ctx, s.conn, verify.Config{Patience: time.Hour, OnProgress: func(p verify.Progress) {
		if strings.HasPrefix(p.Step, "waiting ") {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || !report.Clean() {
		t.Errorf("%v, %v; want no finding yet, and an interrupt", report.Findings, err)
	}
}

// TestFindsWhatNobodyCanClaim has every reason; the test's dispatcher lives.
func TestFindsWhatNobodyCanClaim(t *testing.T) {
	t.Parallel()
	const hour = "clock_timestamp() - interval '1 h'"
	for name, test := range map[string]struct {
		plant string
		class verify.Class
		says  string
	}{
		"nobody handles the kind": {"update lockstep.job set kind = 'other'", verify.Unclaimable, "no live dispatcher works on this queue and kind"},
		"nobody works on the queue": {
			"update lockstep.dispatcher set queues = '{elsewhere}'", verify.Unclaimable, "no live dispatcher works on this queue and kind",
		},
		"the dispatcher has died": {
			"update lockstep.dispatcher set seen_at = clock_timestamp() - interval '4 days'", verify.Unclaimable, "no live dispatcher",
		},
		"leased for ever":        {"update lockstep.job set lease_until = 'infinity'", verify.Unclaimable, "further ahead than any lease lasts"},
		"leased for a day":       {"update lockstep.job set lease_until = clock_timestamp() + interval '1 day'", verify.Unclaimable, "further ahead"},
		"settled and left alone": {"update lockstep.job set settled = true, outcome = 'completed', ended_at = " + hour, verify.Unclaimable, "no dispatcher lets the lane go on"},
		"due and left alone":     {"update lockstep.job set stage = 'b', attempt = 1, run_at = " + hour, verify.Unclaimable, "no dispatcher lets them run"},
		"held by a lost handler": {
			"update lockstep.job set lease = '1 s', worker = gen_random_uuid(), lease_until = clock_timestamp() + interval '1 s', held_since = " + hour,
			verify.Unclaimable, "transactional handler that lost its lease",
		},
		"a lease long past": {
			"update lockstep.job set worker = gen_random_uuid(), claimed_at = " + hour + ", run_at = " + hour + ", lease_until = " + hour,
			verify.LeasePast, "nobody has taken them since",
		},
		"a lease long past, and nobody there": {
			"with d as (delete from lockstep.dispatcher) update lockstep.job set worker = gen_random_uuid(), claimed_at = " + hour + ", run_at = " + hour + ", lease_until = " + hour,
			verify.LeasePast, "no live dispatcher works on this queue and kind",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			id := s.enqueue("a")
			s.add(store.NewJob{Kind: "k", OrderingKey: "a"}) // waits, and is no finding
			clean(t, s.verify(verify.Config{}))
			s.plant(strings.Replace(test.plant, "update lockstep.job", "update lockstep.job j", 1) + whereHead(test.plant))
			f := s.found(s.verify(verify.Config{}), test.class, test.says)
			if f.Jobs != 1 || f.IDs[0] != id || f.Lane.OrderingKey != "a" {
				t.Errorf("found %+v, want it about job %d alone", f, id)
			}
		})
	}
}

// whereHead restricts a change of jobs to the lane's head.
func whereHead(statement string) string {
	if strings.Contains(statement, "update lockstep.job") {
		return " where j.stage = 'r'"
	}
	return ""
}

func TestManyOfAKindAreOneFinding(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.sql("insert into lockstep.job (kind) select 'other' from generate_series(1, 1000)")
	f := s.found(s.verify(verify.Config{}), verify.Unclaimable, "1000 jobs")
	if f.Jobs != 1000 || len(f.IDs) != 5 {
		t.Errorf("found %d jobs, %d of them named; want 1000 and 5", f.Jobs, len(f.IDs))
	}
}

func TestABlockedLaneIsANotice(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.sql("select lockstep.set_queue('default', on_dead => 'block')")
	head := s.enqueue("a")
	s.enqueue("a")
	s.run(head, store.Dead)
	report := s.verify(verify.Config{})
	clean(t, report)
	if len(report.Notices) != 1 || report.Notices[0].Class != verify.Blocked || report.Notices[0].Jobs != 1 || report.Notices[0].IDs[0] != head {
		t.Errorf("notices = %v, want one of the lane blocked by job %d", report.Notices, head)
	}
}

func TestFindsBlockedLanesAndDeadLettersThatDoNotMatch(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]string{
		"blocks its lane as dead, and has no dead letter": "delete from lockstep.dead_job",
		"says that it blocks its lane, where it is not":   "delete from lockstep.job where hold = 'x'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.sql("select lockstep.set_queue('default', on_dead => 'block')")
			head := s.enqueue("a")
			s.run(head, store.Dead)
			s.plant(plant)
			s.found(s.verify(verify.Config{}), verify.DeadLetter, fmt.Sprintf("job %d", head), name)
		})
	}
}

// A worker that died under a pause has its jobs claimed anew after the resume:
// until then that is no finding.
func TestALeaseLongPastUnderAPauseIsNone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue("a")
	s.plant("update lockstep.job set worker = gen_random_uuid(), lease_until = clock_timestamp() - interval '1 h', claimed_at = clock_timestamp() - interval '2 h', run_at = clock_timestamp() - interval '3 h'")
	s.sql("select lockstep.pause(queue => 'default')")
	clean(t, s.verify(verify.Config{}))
	s.sql("select lockstep.resume(queue => 'default')")
	s.found(s.verify(verify.Config{}), verify.LeasePast, "nobody has taken them since")
}
