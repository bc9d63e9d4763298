package protocol_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/store"
)

// stateFunctions change the state of jobs, or tell a worker to; with a call.
var stateFunctions = map[string]string{
	"adopt":          "adopt()",
	"cancel":         "cancel(1)",
	"cancel_replay":  "cancel_replay(1)",
	"claim":          "claim(lockstep.nobody(), 'default', '{k}', 1, '1 minute')",
	"complete":       "complete(lockstep.nobody(), 1, 1)",
	"count_jobs":     "count_jobs()",
	"deregister":     "deregister(lockstep.nobody())",
	"discard":        "discard(1)",
	"due":            "due()",
	"extend":         "extend(lockstep.nobody(), '{1}', '{1}', '1 minute')",
	"fail":           "fail(lockstep.nobody(), 1, 1, 'error')",
	"finish":         "finish(lockstep.nobody(), '{1}', '{1}', '{completed}', '{null}', '{null}', '{null}')",
	"hold_lane":      "hold_lane(1, 1)",
	"register":       "register(gen_random_uuid(), 'd', '{q}', '{k}', '1 minute')",
	"release":        "release(lockstep.nobody(), 1, 1)",
	"replay":         "replay(1)",
	"reschedule":     "reschedule(1, delay => '1 minute')",
	"resume":         "resume(queue => 'default')",
	"retry_now":      "retry_now(1)",
	"set_priority":   "set_priority(1, 1)",
	"set_queue":      "set_queue('default')",
	"skip_head":      "skip_head('default', '', 'k')",
	"snooze":         "snooze(lockstep.nobody(), 1, 1, '1 minute')",
	"start_replay":   "start_replay()",
	"sweep":          "sweep()",
	"tenant_cancel":  "tenant_cancel(1)",
	"tenant_discard": "tenant_discard(1)",
	"tenant_replay":  "tenant_replay(1)",
	"unblock_lane":   "unblock_lane('default', '', 'k')",
	"unpark":         "unpark()",
	"upkeep":         "upkeep()",
}

// otherFunctions are for callers too, and fine under any isolation; with the
// reason.
var otherFunctions = map[string]string{
	"after_failover": "moves sequences, which have no snapshots",
	"assert_claim":   "locks the row it reads, and so fails rather than believe an old snapshot",
	"end_stuck":      "changes no row",
	"enqueue":        "a producer's transaction may have any isolation: its jobs are placed to wait",
	"enqueue_many":   "as enqueue",
	"job_enter":      "a trigger",
	"job_place":      "a trigger, for which the isolation decides how to place",
	"job_signal":     "a trigger",
	"job_size":       "a trigger",
	"note_commit":    "a trigger, which leaves the note to others under them",
	"grant_operator": "changes rights alone",
	"grant_producer": "changes rights alone",
	"grant_reader":   "changes rights alone",
	"grant_tenant":   "changes rights alone",
	"grant_worker":   "changes rights alone",
	"revoke_role":    "changes rights alone",
	"secure":         "changes rights alone",
	"set_limits":     "defines functions",
}

// TestStateFunctionsNeedReadCommitted finds the functions meant for callers:
// those that no other one calls. A new one has to be put into one of the lists.
func TestStateFunctionsNeedReadCommitted(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		rows, _ := s.conn.Query(t.Context(), `
			select p.proname from pg_proc p where p.pronamespace = 'lockstep'::regnamespace and p.provolatile = 'v'
			   and not exists (select from pg_proc q where q.pronamespace = p.pronamespace and q.oid <> p.oid
			                      and pg_get_functiondef(q.oid) ~ ('lockstep"?\.' || p.proname || '\('))
			   and not exists (select from pg_attrdef d where pg_get_expr(d.adbin, d.adrelid) ~ ('lockstep"?\.' || p.proname || '\('))`)
		callable, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must("pg_proc", err)
		for _, name := range callable {
			if stateFunctions[name] == "" && otherFunctions[name] == "" {
				t.Errorf("is %s a state function?", name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(stateFunctions)) {
			for _, isolation := range []string{"repeatable read", "serializable"} {
				s.exec("begin isolation level " + isolation)
				if got := code(s.try("select * from lockstep." + stateFunctions[name])); got != "LS001" {
					t.Errorf("%s under %s answers %s, want LS001", name, isolation, got)
				}
				s.exec("rollback")
			}
		}
	})
}

func TestAnAssertedClaimIsNoOldNews(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.put("k", "a")
		job := s.claimOne()
		old := s.enter()
		old.exec("begin isolation level repeatable read; select from lockstep.job")
		s.expire()
		want("jobs taken by a rival", len(s.enter().claim(1)), 1)
		want("assert_claim", code(old.try("select lockstep.assert_claim($1, $2)", job.ID, job.Fence)), "40001")
	})
}

func TestStoreBeginsReadCommittedWhereNeeded(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("set default_transaction_isolation = 'serializable'")
		s.put("k", "a")
		swept, err := s.store.Sweep(t.Context(), 1000, "", nil)
		must("sweep", err)
		want("lanes that got a head", swept.Promoted, 1)
		want("finish", s.finish("completed", s.claimOne()), "done")
	})
}

// TestDispatchersRegisterAtOnce: each reads the others' rows and writes its own,
// which two at once can't do one after the other.
func TestDispatchersRegisterAtOnce(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("begin; lock table lockstep.dispatcher in share mode")
		var registering errgroup.Group
		for range 2 {
			c := s.enter()
			c.exec("set default_transaction_isolation = 'serializable'")
			registering.Go(func() error {
				_, err := c.store.Register(t.Context(), store.Registration{Worker: c.worker, Queues: []string{"default"}, Kinds: []string{"k"}, Lease: time.Minute})
				return err
			})
		}
		look := s.enter()
		poll := time.NewTicker(2 * time.Millisecond)
		defer poll.Stop()
		for value[int](look, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") < 2 {
			<-poll.C
		}
		s.exec("commit")
		must("register", registering.Wait())
	})
}

func TestTheDatabaseRefusesASecondHead(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.put("k", "head", "waiting")
		for _, stage := range []string{"r", "b"} {
			want("update to "+stage, code(s.try(fmt.Sprintf("update lockstep.job set stage = '%s' where payload ->> 'n' = 'waiting'", stage))), "23505")
			s.exec("begin; alter table lockstep.job disable trigger user")
			want("insert as "+stage, code(s.try(fmt.Sprintf("insert into lockstep.job (kind, ordering_key, stage) values ('k', 'k', '%s')", stage))), "23505")
			s.exec("rollback")
			s.exec("update lockstep.job set stage = 'b' where payload ->> 'n' = 'head'")
		}
		s.exec("begin; insert into lockstep.job (kind, ordering_key, tenant) values ('k', 'k', 't'); insert into lockstep.job (kind, ordering_key, queue) values ('k', 'k', 'q'); commit")
		want("heads of other tenants and queues", value[int](s.session, "select count(*) from lockstep.job where stage = 'r'"), 2)
	})
}
