package producers_test

import (
	"errors"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// TestConstraintsForcedEarly: a transaction that forces its constraints enters
// its lanes before its commit. The order is still that of the commits, but it
// holds the lanes, and two such can deadlock.
func TestConstraintsForcedEarly(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	early, other := newClient(t, db), newClient(t, db)
	early.do("begin; set constraints all immediate; select lockstep.enqueue('early', ordering_key => 'a')")
	commit := other.start("select lockstep.enqueue('other', ordering_key => 'a')")
	other.blocked(db, commit)
	early.do("select lockstep.enqueue('early', ordering_key => 'a'); commit")
	if err := commit.wait(); err != nil {
		t.Fatal(err)
	}
	expectLanes(t, db, "a:rww")
	if last := testdb.Value[string](t, db, "select kind from lockstep.job order by lane_turn desc limit 1"); last != "other" {
		t.Errorf("the last in the lane is %q, want the last that committed", last)
	}
}

func TestConstraintsForcedEarlyCanDeadlock(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	one, two := newClient(t, db), newClient(t, db)
	one.do("begin; set constraints all immediate; select lockstep.enqueue('k', ordering_key => 'a')")
	two.do("begin; set constraints all immediate; select lockstep.enqueue('k', ordering_key => 'b')")
	first := one.start("select lockstep.enqueue('k', ordering_key => 'b')")
	one.blocked(db, first)
	second := two.start("select lockstep.enqueue('k', ordering_key => 'a')")
	a, b := refusal(t, first.wait()), refusal(t, second.wait())
	if (a == nil) == (b == nil) {
		t.Fatalf("one of the two must fail: %v, %v", a, b)
	}
	if a == nil {
		a = b
	}
	if a.Code != "40P01" {
		t.Errorf("got %v, want a deadlock that PostgreSQL finds and ends", a)
	}
}

// TestJobsFromDeferredTriggers: a user's own deferred trigger inserts jobs while
// the transaction commits, after ours have been placed.
func TestJobsFromDeferredTriggers(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, `create table orders (id int);
		create function ordered() returns trigger language plpgsql as $$
		begin
			insert into lockstep.job (kind, ordering_key) select 'late', 'o' || i from generate_series(new.id, new.id + 1) i;
			return null;
		end $$;
		create constraint trigger ordered after insert on orders deferrable initially deferred for each row execute function ordered()`)
	c := newClient(t, db)
	c.do("begin; select lockstep.enqueue('first', ordering_key => 'o1'); insert into orders values (1), (2); commit")
	expectLanes(t, db, "o1:rw o2:rw o3:r")
	c.do("begin; insert into orders select i from generate_series(1, 300) i; commit") // beyond one transaction's fine locks
	expectPlaced(t, db, 5+600)
}

// TestJobFromDeferredTriggerBetween: the user's trigger fires after the first
// of our own has placed the transaction, and before the last. That one finds
// its own job placed; the one inserted meanwhile is placed by a firing of its
// own.
func TestJobFromDeferredTriggerBetween(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, `create table orders (id int);
		create function ordered() returns trigger language plpgsql as $$
		begin
			insert into lockstep.job (kind, ordering_key) values ('late', 'between');
			return null;
		end $$;
		create constraint trigger ordered after insert on orders deferrable initially deferred for each row execute function ordered()`)
	newClient(t, db).do(`begin; select lockstep.enqueue('first', ordering_key => 'a'); insert into orders values (1);
		select lockstep.enqueue('last', ordering_key => 'b'); commit`)
	expectLanes(t, db, "a:r b:r between:r")
}

// TestTwoPhaseCommit: jobs are placed at PREPARE and seen at COMMIT PREPARED.
// PREPARE refuses a transaction that has signalled, so signals are off in it.
func TestTwoPhaseCommit(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c, gid := newClient(t, db), "'two "+db.Name+"'"
	c.do("begin; select lockstep.enqueue('k', ordering_key => 'a')")
	if refused := refusal(t, c.try("prepare transaction "+gid)); refused == nil || refused.Code != "0A000" {
		t.Errorf("preparing with signals ended with %v, want feature_not_supported", refused)
	}
	c.do("rollback")
	c.do("begin; set local lockstep.signals = off; select lockstep.enqueue('k', ordering_key => 'a'), lockstep.enqueue('k', ordering_key => 'b'); prepare transaction " + gid)
	expectLanes(t, db, "")
	c.do("select lockstep.enqueue('k', ordering_key => 'c')")
	c.do("commit prepared " + gid)
	c.do("select lockstep.enqueue('k', ordering_key => 'a')")
	expectLanes(t, db, "a:rw b:r c:r")
}

// TestTriggersOff: without them a second job of a lane is refused by the head
// index, jobs left entering are placed by the sweep, and Status says so.
func TestTriggersOff(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := newClient(t, db)
	const insert = "insert into lockstep.job (kind, ordering_key) values ('k', 'a')"
	c.do("set session_replication_role = replica")
	c.do(insert)
	if refused := refusal(t, c.try(insert)); refused == nil || refused.ConstraintName != "job_head" {
		t.Errorf("a second head ended with %v, want job_head", refused)
	}
	c.do("reset session_replication_role")

	db.Exec(t, "alter table lockstep.job disable trigger job_place")
	c.do(insert)
	c.do(insert)
	expectLanes(t, db, "a:ree")
	expectTriggerProblem(t, db, true)
	db.Exec(t, "alter table lockstep.job enable trigger job_place")
	expectTriggerProblem(t, db, false)
	sweepAll(t, db)
	c.do(insert)
	expectLanes(t, db, "a:rwww")
}

func expectTriggerProblem(t *testing.T, db *testdb.DB, want bool) {
	t.Helper()
	state, err := migrations.Status(t.Context(), db.Conn(t), migrations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if got := errors.Is(errors.Join(state.Problems...), migrations.ErrTrigger); got != want {
		t.Errorf("a trigger is reported: %v, want %v; problems: %v", got, want, state.Problems)
	}
}

// TestCancelInAnOpenTransaction: a cancel of a lane's only job holds up neither
// the lane's producers nor, in any number, the server's lock table, however
// long its transaction stays open.
func TestCancelInAnOpenTransaction(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := newClient(t, db)
	c.do("select lockstep.enqueue('k', ordering_key => 'a' || i) from generate_series(1, 300) i")
	c.do("begin; select lockstep.cancel(id) from lockstep.job")
	const held = "select count(*) from pg_locks join pg_database d on d.oid = database where locktype = 'advisory' and datname = current_database()"
	if n := testdb.Value[int](t, db, held); n != 0 {
		t.Errorf("the transaction holds %d advisory locks", n)
	}
	db.Exec(t, "select lockstep.enqueue('k', ordering_key => 'a1')")
	c.do("commit")
	db.Exec(t, "select lockstep.due(); select lockstep.due()")
	expectLanes(t, db, "a1:r")
}

// TestDueWaitsForNoDeadLetter: a dead letter in somebody's open transaction
// holds up its own lane at most.
func TestDueWaitsForNoDeadLetter(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c, holder := newClient(t, db), newClient(t, db)
	const worker = "'11111111-1111-1111-1111-111111111111'"
	c.do("select lockstep.set_queue('default', on_dead => 'block'); select lockstep.enqueue('k', ordering_key => 'a')")
	c.do("select lockstep.claim(" + worker + ", 'default', '{k}', 1, '1 min')")
	c.do("select lockstep.fail(" + worker + ", id, fence, 'no', true) from lockstep.job")
	holder.do("begin; select pg_advisory_xact_lock(lockstep.entry_lock('default', '', 'a'))")
	c.do("select lockstep.unblock_lane('default', '', 'a')") // can only settle the head
	holder.do("rollback; begin; select from lockstep.dead_job for update")
	c.do("select lockstep.enqueue('k', delay => '1 ms'), pg_sleep(0.01)")
	c.do("set lock_timeout = '1 s'; select lockstep.due(), lockstep.sweep()")
	holder.do("rollback")
	c.do("select lockstep.due()")
	if left := testdb.Value[string](t, db, "select string_agg(state, ' ') from lockstep.jobs where ordering_key = 'a' or state = 'ready'"); left != "ready dead" {
		t.Errorf("got %q, want the lane's letter and the job that fell due", left)
	}
}

// TestAJobKeepsItsLane: taking the key from a job that waits in a lane would
// hide it from everyone.
func TestAJobKeepsItsLane(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	c := newClient(t, db)
	c.do("select lockstep.enqueue('k', ordering_key => 'a') from generate_series(1, 2)")
	if refused := refusal(t, c.try("update lockstep.job set ordering_key = null where stage = 'w'")); refused == nil || refused.ConstraintName != "job_lane_keyed" {
		t.Errorf("ended with %v, want job_lane_keyed", refused)
	}
}
