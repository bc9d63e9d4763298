package protocol_test

import (
	"testing"

	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

func TestSeen_AScheduledJobNeitherRunsNorHoldsALaneYet(t *testing.T) {
	const when = "when (new.ordering_key is not null or new.run_at > pg_catalog.clock_timestamp())"
	prove(t, rule{
		must: "a job due later is scheduled, with and without a key: it would run now, and two of a lane would collide on its head",
		without: map[string]cut{
			"keyless": {[]edit{{when, "when (new.ordering_key is not null)"}}, `jobs that run early: got "c"`},
			"keyed":   {[]edit{{when, "when (new.ordering_key is not null and new.run_at <= pg_catalog.clock_timestamp())"}}, "job_head"},
		},
		scene: func(s *scene) {
			const later = "insert into lockstep.job (kind, ordering_key, payload, run_at) values ('k', $1, $2, clock_timestamp() + '1 hour')"
			s.exec(later, "k", `{"n": "a"}`)
			s.exec(later, "k", `{"n": "b"}`)
			s.exec(later, nil, `{"n": "c"}`)
			if early := names(s.claim(10)); early != "" {
				s.failf("jobs that run early: got %q", early)
			}
			s.put("k", "d")
			want("lane", s.lane("k"), "d:r a:s b:s")
			want("the lane's job that is due", names(s.claim(10)), "d")
		},
	})
}

func TestSeen_TwoInstallsShareATransaction(t *testing.T) {
	prove(t, rule{
		must: "notes in a transaction carry a hash of the schema: two installs in one transaction would take the other's for their own",
		without: map[string]cut{"hash": {[]edit{{
			"return 'lockstep_' || pg_catalog.to_hex(@schema@.lock_number('setting', '', '', '')) || '.' || what;",
			"return 'lockstep.' || what;",
		}}, "left entering: got 1"}},
		scene: func(s *scene) {
			s.db.Migrate(s.t, migrations.Config{Schema: "other", Files: s.files})
			s.exec("begin; insert into lockstep.job (kind, ordering_key) values ('k', 'k'); insert into other.job (kind, ordering_key) values ('k', 'k'); commit")
			want("jobs left entering", value[int64](s.session, `select (select count(*) from lockstep.job where stage = 'e')
				+ (select count(*) from other.job where stage = 'e')`), 0)
			want("jobs claimed here", len(s.claim(10)), 1)
			there := store.New(s.conn).In("other")
			claimed, err := there.Claim(s.t.Context(), store.ClaimArgs{Worker: s.worker, Queue: "default", Kinds: []string{"k"}, Max: 1, Lease: patience})
			must("claim there", err)
			want("jobs claimed there", len(claimed.Jobs), 1)
		},
	})
}

func TestSeen_ANoteOfAnotherTransactionIsNotBelieved(t *testing.T) {
	prove(t, rule{
		must: "a note counts only with this transaction's number: what a pooler's last client left behind would strand the next one's jobs",
		without: map[string]cut{
			"entering": {[]edit{
				{"  new.stage := 'e';\n", "  new.stage := 'e';\n  if said <> '' then return new; end if;\n"},
				{"if said = xid || ':done' then", "if said like '%:done' then"},
			}, "lane: got a:e"},
			"signals": {[]edit{{"if not starts_with(said, xid) then", "if said = '' then"}}, "signals: got ,"},
		},
		scene: func(s *scene) {
			listener := s.enter()
			listener.listen()
			leave := func(what, note string) {
				s.exec("select set_config(lockstep.setting($1), $2, false)", what, note)
			}
			for i, note := range []string{"1:done", "1:1", ":done", "done", "nonsense", "1:many+"} {
				leave("entering", note)
				leave("said", value[string](s.session, "select '1;r ' || lockstep.queue_hash('default') || ';;'"))
				s.put("k", string(rune('a'+i)))
			}
			want("lane", s.lane("k"), "a:r b:w c:w d:w e:w f:w")
			want("signals", listener.signals(), "r")
		},
	})
}

func TestSeen_NoNewcomerOvertakesTheWaiting(t *testing.T) {
	const (
		promotesOne  = "if waiting and not headed then"
		promotesMany = "    perform @schema@.head_lanes(queues, tenants, keys);\n    perform @schema@.place_locked(ids);"
		waitsOne     = "set stage = case when headed or waiting then"
		waitsMany    = `
        and not exists (select 1 from @schema@.job w where w.queue = r.queue and w.tenant = r.tenant
                          and w.ordering_key = r.ordering_key and w.stage = 'w' offset 0)`
		overtaken = "a newcomer: got a:w b:r"
		headless  = "a newcomer: got a:w b:w"
		became    = "while the first is held: got b:w c:w d:r"
	)
	withoutPromoteOne, withoutPromoteMany := edit{promotesOne, "if false then"}, edit{promotesMany, "    perform @schema@.place_locked(ids);"}
	withoutWaitOne, withoutWaitMany := edit{waitsOne, "set stage = case when headed then"}, edit{waitsMany, ""}
	prove(t, rule{
		must: "in a lane without a head a newcomer waits, and the first waiting job is promoted: after a REPEATABLE READ producer or a head deleted by hand it would overtake",
		without: map[string]cut{
			"one both":       {[]edit{withoutPromoteOne, withoutWaitOne}, "one: " + overtaken},
			"one promotion":  {[]edit{withoutPromoteOne}, "one: " + headless},
			"one waiting":    {[]edit{withoutWaitOne}, "job_head"},
			"many both":      {[]edit{withoutPromoteMany, withoutWaitMany}, "many: " + overtaken},
			"many promotion": {[]edit{withoutPromoteMany}, "many: " + headless},
			"many waiting":   {[]edit{withoutWaitMany}, "many: a newcomer " + became},
			"skipping": {[]edit{{
				"where j.id = any (firsts) and j.stage::text = 'w' for update skip locked);", "where j.id = any (firsts) and j.stage::text = 'w' for update);",
			}}, waited},
		},
		scene: func(s *scene) {
			s.exec("set lock_timeout = '300ms'")
			s.noOvertaking("one", func(name string) { s.put("one", name) })
			s.noOvertaking("many", func(name string) {
				s.exec("begin")
				s.put("other "+name, "x")
				s.put("many", name)
				s.exec("commit")
			})
		},
	})
}

// noOvertaking sees how a lane without a head takes newcomers.
func (s *scene) noOvertaking(key string, put func(name string)) {
	s.exec("begin isolation level repeatable read")
	s.put(key, "a")
	s.exec("commit")
	want(key+": after a REPEATABLE READ producer", s.lane(key), "a:w")
	put("b")
	want(key+": a newcomer", s.lane(key), "a:r b:w")

	s.put(key, "c")
	s.exec("delete from lockstep.job where ordering_key = $1 and payload ->> 'n' = 'a'", key)
	somebody := s.enter()
	somebody.exec("begin")
	somebody.exec("select from lockstep.job where ordering_key = $1 and payload ->> 'n' = 'b' for update", key)
	put("d")
	want(key+": a newcomer while the first is held", s.lane(key), "b:w c:w d:w")
	somebody.exec("commit")
	swept, err := s.store.Sweep(s.t.Context(), 1000, "", nil)
	must("sweep", err)
	want(key+": lanes that the sweep gave a head", swept.Promoted, 1)
	want(key+": after the sweep", s.lane(key), "b:r c:w d:w")
}

func TestSeen_AJobThatFallsDueInALaneWithoutAHeadIsTold(t *testing.T) {
	prove(t, rule{
		must: "whoever puts jobs into a lane that stays without a head, since its first job is locked for a moment, asks for a sweep: nobody else comes by before the next full one",
		without: map[string]cut{"asked for": {[]edit{{
			"perform @schema@.head_lanes(queues, tenants, keys);\n    perform @schema@.place_locked(entered);",
			"perform @schema@.promote_headless(queues, tenants, keys);\n    perform @schema@.place_locked(entered);",
		}}, "signals: got ,"}},
		scene: func(s *scene) {
			s.put("a", "a1", "a2")
			s.exec("insert into lockstep.job (kind, ordering_key, run_at) values ('k', 'a', clock_timestamp() + interval '1 hour')")
			s.exec("update lockstep.job set run_at = run_at - interval '2 hours' where stage = 's'; delete from lockstep.job where stage = 'r'")
			other, listener := s.enter(), s.enter()
			other.exec("begin; select from lockstep.job where stage = 'w' for update")
			listener.listen()
			want("due", value[int](s.session, "select due from lockstep.due()"), 1)
			want("signals", listener.signals(), "w")
		},
	})
}
