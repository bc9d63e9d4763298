package protocol_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// TestForcedRowSecurityIsAnError: it would hide jobs from their own triggers.
func TestForcedRowSecurityIsAnError(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		role := "migrator_" + s.db.Name
		s.exec("create role " + role + " login")
		s.afterwards("drop owned by " + role + " cascade; drop role " + role)
		s.exec("grant create on database " + s.db.Name + " to " + role)
		owner, err := pgx.Connect(t.Context(), strings.Replace(s.db.URL, "postgres@", role+"@", 1))
		must("connect as "+role, err)
		t.Cleanup(func() { _ = owner.Close(t.Context()) })
		_, err = migrations.Up(t.Context(), owner, migrations.Config{Schema: "mine"})
		must("migrate", err)

		const one, two = "insert into mine.job (kind, ordering_key) values ('k', 'k')", "insert into mine.job (kind, ordering_key) values ('k', 'k'), ('k', 'l')"
		must("insert", s.try(one))
		s.exec("alter table mine.job enable row level security; alter table mine.job force row level security")
		want("insert", code(s.try(one)), "LS007")
		want("insert of two", code(s.try(two)), "LS007")
		s.exec("alter table mine.job no force row level security")
		must("insert", s.try(two))
	})
}

// TestConstraintsForcedEarlyKeepTheOrder.
func TestConstraintsForcedEarlyKeepTheOrder(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		early, late := s.enter(), s.enter()
		early.exec("begin; set constraints all immediate")
		early.put("k", "a")
		early.put("k", "b")
		second := s.start(late, `insert into lockstep.job (kind, ordering_key, payload) values ('k', 'k', '{"n": "d"}')`)
		want("another producer waits", second.waits(), true)
		early.exec("set constraints all deferred")
		early.exec("savepoint s")
		early.put("k", "x")
		early.exec("set constraints all immediate; rollback to s")
		early.put("k", "c")
		early.exec("commit")
		must("the other producer", second.wait())
		want("lane", s.lane("k"), "a:r b:w c:w d:w")
	})
}

// TestTwoPhaseCommit places as the transaction is prepared, and holds the lane
// until it is settled.
func TestTwoPhaseCommit(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		gid := "two-phase " + s.db.Name
		s.put("k", "a")
		s.exec("begin")
		s.put("another", "x")
		want("prepare without the setting", code(s.try("prepare transaction 'refused'")), "0A000")
		s.exec("rollback; begin; set local lockstep.signals = 'off'")
		s.put("k", "b")
		s.exec("prepare transaction '" + gid + "'")
		other := s.enter()
		second := s.start(other, `insert into lockstep.job (kind, ordering_key, payload) values ('k', 'k', '{"n": "c"}')`)
		want("another producer waits", second.waits(), true)
		s.exec("commit prepared '" + gid + "'")
		must("the other producer", second.wait())
		want("lane", s.lane("k"), "a:r b:w c:w")
	})
}

// TestAPolicyChangedMeanwhileBlocksNobody: a head that dies as the policy
// changes still blocks its lane, and the sweep lets it go on.
func TestAPolicyChangedMeanwhileBlocksNobody(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("select lockstep.set_queue('default', on_dead => 'block'); select lockstep.set_queue('other', on_dead => 'block')")
		s.exec("insert into lockstep.job (kind, queue, ordering_key, payload) values ('k', 'other', 'other', '{\"n\": \"c\"}')")
		s.finish(store.Dead, s.claimFrom("other", 1)...)
		s.put("k", "a", "b")
		job := s.claimOne()
		s.exec("begin")
		want("finish", s.finish(store.Dead, job), "done")
		s.enter().exec("select lockstep.set_queue('default', on_dead => 'skip')")
		s.exec("commit")
		want("lane", s.lane("k"), "a:blocked b:w")
		s.exec("select lockstep.sweep()")
		want("after the sweep", s.lane("k"), "b:r")
		want("another queue's lane", s.lane("other"), "c:blocked")
		want("dead letters", value[int](s.session, "select count(*) from lockstep.dead_job where not blocking"), 1)
	})
}
