package protocol_test

import (
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

// doubt leaves an in-doubt two-phase transaction that entered a lane, until the
// test ends.
func (s *scene) doubt(key, gid string) {
	producer := s.enter()
	producer.exec("begin; set local lockstep.signals = 'off'")
	producer.put(key, "in doubt")
	producer.exec("prepare transaction '" + gid + "'")
	s.afterwards("rollback prepared '" + gid + "'")
}

func TestSeen_CommitsEnterALaneOneByOne(t *testing.T) {
	prove(t, rule{
		must: "a lane's entry lock is held from the placing to the end of the commit: without it jobs run out of commit order at once",
		without: map[string]cut{"entry lock": {[]edit{{
			"then pg_catalog.pg_try_advisory_xact_lock(@schema@.entry_lock(queue, tenant, ordering_key))", "then true",
		}}, "in the order of the commits: got b a"}},
		scene: func(s *scene) {
			slow, quick := s.enter(), s.enter()
			s.put("k", "head")
			job := s.claimOne()
			slow.exec("begin")
			slow.put("k", "a")
			slow.exec("set constraints all immediate") // placed, as the first step of a commit
			second := s.start(quick, `insert into lockstep.job (kind, ordering_key, payload) values ('k', 'k', '{"n": "b"}')`)
			second.waits()
			slow.exec("commit")
			must("the other commit", second.wait())

			want("finish", s.finish(store.Completed, job), "done")
			first := s.claimOne()
			want("finish", s.finish(store.Completed, first), "done")
			want("finish", s.finish(store.Completed, s.claimOne()), "done")
			want("in the order of the commits", value[string](s.session, `
				select string_agg(payload ->> 'n', ' ' order by pg_xact_commit_timestamp(enqueued_xid::xid))
				from lockstep.finished_job where id <> $1`, job.ID), nameOf(first)+" "+map[string]string{"a": "b", "b": "a"}[nameOf(first)])
		},
	})
}

func TestSeen_ABulkAsksForAQueueInRounds(t *testing.T) {
	prove(t, rule{
		must: "a bulk asks for its queue's coarse lock in rounds of 100 ms: one in-doubt producer and one waiting bulk would stop the queue",
		without: map[string]cut{"rounds": {[]edit{{
			"set lock_timeout = '100ms'\nas $lockstep$", "set lock_timeout = '10s'\nas $lockstep$",
		}}, "a producer of another lane: still waiting"}},
		scene: func(s *scene) {
			s.doubt("k", "rounds "+s.db.Name)
			bulk, producer := s.enter(), s.enter()
			loading := s.start(bulk, "insert into lockstep.job (kind, ordering_key) select 'k', i::text from generate_series(1, 300) i")
			if !loading.waits() {
				s.failf("a bulk did not wait for the in-doubt producer")
			}
			for range 3 {
				one := s.start(producer, "insert into lockstep.job (kind, ordering_key) values ('k', 'another')")
				must("a producer of another lane", one.wait())
			}
		},
	})
}

func TestSeen_NobodyUpgradesACoarseLock(t *testing.T) {
	prove(t, rule{
		must: "who holds a coarse lock shared never waits for it exclusive: two would deadlock",
		without: map[string]cut{
			"later rounds": {[]edit{
				{"else\n    perform @schema@.place_entered(first_round => said <> xid || ':many+');", "else\n    perform @schema@.place_entered(first_round => true);"},
				{"elsif not @schema@.holds_lock(step.number) then", "elsif true then"},
			}, "deadlock detected"},
		},
		scene: func(s *scene) {
			a, b := s.enter(), s.enter()
			for _, c := range []*session{a, b} {
				c.exec("begin")
				c.exec("insert into lockstep.job (kind, ordering_key) values ('k', $1)", value[string](c, "select pg_backend_pid()::text"))
				c.exec("set constraints all immediate; set constraints all deferred")
			}
			a.exec("insert into lockstep.job (kind, ordering_key) select 'k', 'a' || i from generate_series(1, 300) i")
			b.exec("insert into lockstep.job (kind, ordering_key) select 'k', 'b' || i from generate_series(1, 300) i")
			first, second := s.start(a, "commit"), s.start(b, "commit")
			must("a later round with many lanes", first.wait())
			must("the other", second.wait())
			want("jobs placed", value[int64](s.session, "select count(*) from lockstep.job where stage = 'r'"), 602)
		},
	})
}

func TestSeen_WhoHandedALaneOnDoesNotUpgrade(t *testing.T) {
	prove(t, rule{
		must: "who handed a lane on in the same transaction holds its queue's coarse lock shared, and does not wait for it exclusive at the commit: two would deadlock",
		without: map[string]cut{"look": {[]edit{{
			"elsif not @schema@.holds_lock(step.number) then", "elsif true then",
		}}, "deadlock detected"}},
		scene: func(s *scene) {
			a, b := s.enter(), s.enter()
			for _, c := range []*session{a, b} {
				c.put(value[string](c, "select pg_backend_pid()::text"), "first")
				job := c.claimOne()
				c.exec("begin")
				want("finish", c.finish(store.Completed, job), "done")
				c.exec("insert into lockstep.job (kind, ordering_key) select 'k', 'lane ' || i from generate_series(1, 300) i")
			}
			first, second := s.start(a, "commit"), s.start(b, "commit")
			must("a commit with many lanes", first.wait())
			must("the other", second.wait())
			want("heads", value[int64](s.session, "select count(*) from lockstep.job where stage = 'r'"), 300)

			s.exec("delete from lockstep.job")
			s.put("alone", "first")
			job := s.claimOne()
			s.exec("begin")
			want("finish", s.finish(store.Completed, job), "done")
			s.exec("insert into lockstep.job (kind, ordering_key) select 'k', i::text from generate_series(1, 300) i; set constraints all immediate")
			want("advisory locks where nobody else is at the queue", s.locks(), 3)
		},
	})
}

func TestSeen_ManyLanesTakeOneLock(t *testing.T) {
	prove(t, rule{
		must:    "a transaction that enters more than 200 lanes takes one coarse lock: from some 14,000 locks on the server would be out of shared memory",
		without: map[string]cut{"coarse lock": {[]edit{{"c.lanes > 200);", "false);"}}, "got 3001"}},
		scene: func(s *scene) {
			s.exec("begin; insert into lockstep.job (kind, ordering_key) select 'k', i::text from generate_series(1, 3000) i")
			if s.exec("set constraints all immediate"); s.locks() > 1 {
				s.failf("advisory locks: got %d", s.locks())
			}
			s.exec("rollback; begin; insert into lockstep.job (kind, ordering_key) select 'k', i::text from generate_series(1, 200) i; set constraints all immediate")
			want("advisory locks of 200 lanes", s.locks(), 201)
		},
	})
}

// locks counts the advisory locks that a session holds.
func (c *session) locks() int {
	return value[int](c, "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()")
}

func TestSeen_ACommitWaitsForALaneOnlySoLong(t *testing.T) {
	prove(t, rule{
		must:  "the placing sets a lock_timeout of its own, as statement_timeout does not reach a commit, and names the lane and its holder",
		tuned: []edit{{"return '10 seconds'::interval;", "return '400 ms'::interval;"}},
		without: map[string]cut{"lock_timeout": {[]edit{{
			"      perform set_config('lock_timeout', greatest(1, ceil(extract(epoch from until - clock_timestamp()) * 1000))::bigint::text, true);\n", "",
		}}, "still waiting"}},
		scene: func(s *scene) {
			gid := "in doubt " + s.db.Name
			s.doubt("k 1", gid)
			s.mustNotEnter("k 1", gid)
			holder := s.enter()
			holder.exec("begin")
			holder.put("k 2", "a")
			holder.exec("set constraints all immediate")
			s.mustNotEnter("k 2", "pid "+value[string](holder, "select pg_backend_pid()::text"))
		},
	})
}

// mustNotEnter sees a commit fail on a lane's lock, and what it says.
func (s *scene) mustNotEnter(key, holder string) {
	producer := s.enter()
	producer.exec("set statement_timeout = '200ms'; begin")
	producer.put(key, "late")
	err := s.start(producer, "commit").wait()
	want("SQLSTATE", code(err), "LS004")
	for _, part := range []string{key, "default", holder} {
		if !strings.Contains(err.Error(), part) {
			s.failf("the error does not name %q: %w", part, err)
		}
	}
	must("a producer of another lane", s.try("insert into lockstep.job (kind, ordering_key) values ('k', 'another')"))
}
