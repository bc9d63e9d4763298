package protocol_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

// dead makes dead letters of jobs: "a1" and "a2" of key a, say, in this order.
func (s *scene) dead(names ...string) {
	for _, name := range names {
		s.put(name[:1], name)
		want("dead", s.finish(store.Dead, s.claimOne()), "done")
	}
}

// replayAll starts a replay of all letters.
func (s *scene) replayAll(rate float64) {
	_, err := s.store.StartReplay(s.t.Context(), store.NewReplay{Rate: rate})
	must("start_replay", err)
}

// due makes a pass and tells how many letters went back.
func (s *scene) due() int {
	s.exec("update lockstep.replay_run set next_at = least(next_at, clock_timestamp())")
	moved, err := s.store.Due(s.t.Context(), 200)
	must("due", err)
	return moved.Replayed
}

// letters are the names of those that are dead, in the order of their lanes.
func (s *scene) letters() string {
	return value[string](s.session, "select coalesce(string_agg(payload ->> 'n', ' ' order by lane_turn, id), '') from lockstep.dead_job")
}

func TestSeen_AReplayWaitsForNothing(t *testing.T) {
	prove(t, rule{
		must: "a step of a replay waits neither for a lane's entry lock nor for an open transaction with its dedupe key: every due() would stand there",
		without: map[string]cut{
			"try":     {[]edit{{"  if dead.ordering_key is not null and not @schema@.try_entry(dead.queue, dead.tenant, dead.ordering_key) then\n    return 'busy';\n  end if;\n", ""}}, "could not be entered"},
			"timeout": {[]edit{{"set lock_timeout = '5 ms'\n", ""}}, "57014"},
		},
		scene: func(s *scene) {
			s.dead("a1", "b1")
			s.exec("insert into lockstep.job (kind, dedupe_key, payload) values ('k', 'd', '{\"n\": \"c1\"}')")
			want("dead", s.finish(store.Dead, s.claimOne()), "done")
			producer := s.enter()
			producer.exec("begin; select pg_advisory_xact_lock(lockstep.entry_lock('default', '', 'a'))")
			producer.exec("insert into lockstep.job (kind, dedupe_key) values ('k', 'd')")
			s.replayAll(1000)
			s.exec("select lockstep.set_limits(entry_timeout => '500 ms'); set lock_timeout = 0; set statement_timeout = '1s'")
			for range 5 {
				s.due()
			}
			want("letters left", s.letters(), "c1 a1")
			producer.exec("rollback")
			for range 5 {
				s.due()
			}
			want("letters left afterwards", s.letters(), "")
		},
	})
}

func TestSeen_AReplayTriesFewBusyLetters(t *testing.T) {
	prove(t, rule{
		must:  "a step of a replay tries few letters that are busy, since each may wait 5 ms, and comes by and by to those behind them: with 1,000, due() took seconds",
		tuned: []edit{{"      if answer = 'busy' then\n", "      if answer = 'busy' then perform nextval('public.busy');\n"}},
		without: map[string]cut{
			"few":    {[]edit{{"case answer when 'busy' then 5 else 1 end", "0"}}, "busy letters of a pass"},
			"behind": {[]edit{{"      shut := shut || @schema@.lanes_to_pass(letters, looked, shut);\n", ""}}, "letters left behind the busy ones: got a1 a2"},
		},
		scene: func(s *scene) {
			s.exec("insert into lockstep.job (kind, dedupe_key, payload) select 'k', i::text, '{\"n\": \"busy\"}' from generate_series(1, 20) i")
			want("dead", len(s.finish(store.Dead, s.claim(20)...)), len("done ")*20-1)
			s.dead("a1", "a2")
			producer := s.enter()
			producer.exec("begin; insert into lockstep.job (kind, dedupe_key) select 'k', i::text from generate_series(1, 20) i")
			s.replayAll(1000)
			s.replayAll(1000)
			s.exec("create sequence busy")
			left := func() string {
				return value[string](s.session, "select coalesce(string_agg(payload ->> 'n', ' ' order by id), '') from lockstep.dead_job where ordering_key = 'a'")
			}
			for range 100 {
				before := s.value("nextval('busy')")
				s.due()
				if tried := value[int](s.session, "select nextval('busy') - $1::bigint - 1", before); tried > 7 {
					s.failf("busy letters of a pass: got %d", tried)
				}
				if left() == "" {
					break
				}
			}
			want("letters left behind the busy ones", left(), "")
			want("the lane", s.lane("a"), "a1:r a2:w")
			producer.exec("rollback")
			for s.letters() != "" {
				s.due()
			}
		},
	})
}

func TestSeen_AReplayKeepsALanesOrder(t *testing.T) {
	prove(t, rule{
		must:    "where a letter is locked, a replay leaves those behind it in its lane too, comes back to them, and goes on with other lanes",
		without: map[string]cut{"the lane": {[]edit{{"        shut := shut || letter.lane;\n", ""}}, "got a1, want a1 a2"}},
		scene: func(s *scene) {
			s.dead("a1", "a2", "b1")
			reader := s.enter()
			reader.exec("begin; select from lockstep.dead_job where payload ->> 'n' = 'a1' for update")
			s.replayAll(1000)
			for range 5 {
				s.due()
			}
			want("letters left", s.letters(), "a1 a2")
			reader.exec("rollback")
			for range 5 {
				s.due()
			}
			want("the lane", s.lane("a"), "a1:r a2:w")
			want("the end", value[string](s.session, "select concat_ws(' ', state, replayed, kept, remaining) from lockstep.replays"), "done 3 0 0")
		},
	})
}

func TestSeen_AReplayDoesNotBurst(t *testing.T) {
	prove(t, rule{
		must:    "after a standstill a replay does not make up for what was missed: its rate holds then too",
		without: map[string]cut{"no more than is due": {[]edit{{"greatest(run.next_at, moment - case when quick then '200 ms'::interval else '0' end)", "run.next_at"}}, "replayed at once: got 4"}},
		scene: func(s *scene) {
			s.dead("a1", "a2", "a3", "a4")
			s.replayAll(10)
			s.exec("update lockstep.replay_run set next_at = clock_timestamp() - interval '1 hour'")
			want("replayed at once", s.due(), 1)
			want("is due again in a moment", value[bool](s.session,
				"select next_at - stepped_at between '90 ms' and '110 ms' from lockstep.replay_run"), true)
		},
	})
}

func TestSeen_AQuickReplayHasItsRateInEverySecond(t *testing.T) {
	prove(t, rule{
		must:    "what a replay makes up for does not exceed its rate in any second by more than a twentieth",
		without: map[string]cut{"the last second": {[]edit{{"    allowed := least(allowed, floor(run.rate * 1.05) - (select coalesce(sum(n), 0) from unnest(run.recent) n));\n", ""}}, "replayed within a second: got"}},
		scene: func(s *scene) {
			s.exec("insert into lockstep.job (kind) select 'k' from generate_series(1, 40)")
			want("dead", len(s.finish(store.Dead, s.claim(40)...)), len("done ")*40-1)
			s.replayAll(20)
			sum := 0
			for range 25 {
				s.exec("update lockstep.replay_run set next_at = clock_timestamp() - interval '1 hour', recent_at = array(select clock_timestamp() from unnest(recent))")
				sum += s.due()
			}
			want("replayed within a second", sum, 21)
		},
	})
}

func TestSeen_AReplayComesToALetterOnce(t *testing.T) {
	prove(t, rule{
		must:    "a job that is replayed and dies again is not replayed again: it would be without end",
		without: map[string]cut{"what is meant": {[]edit{{"select lane_turn <= (run).last_turn and died_at <= (run).started_at\n", "select true\n"}}, "replayed: got 1"}},
		scene: func(s *scene) {
			s.dead("a1")
			s.replayAll(10)
			want("replayed at first", s.due(), 1)
			want("dead again", s.finish(store.Dead, s.claimOne()), "done")
			want("replayed", s.due(), 0)
			want("letters left", s.letters(), "a1")
		},
	})
}

func TestSeen_AReplayKeepsWhatIsRefused(t *testing.T) {
	prove(t, rule{
		must:    "a letter that can't be enqueued any more stays, and the replay goes on: every due() would fail by it",
		without: map[string]cut{"refused": {[]edit{{"  when integrity_constraint_violation then\n    return 'refused';\n", ""}}, "23514"}},
		scene: func(s *scene) {
			s.dead("a1", "b1")
			s.exec(`update lockstep.dead_job set payload = jsonb_build_object('n', 'a1', 'long', repeat('x', 1000)) where payload ->> 'n' = 'a1'`)
			s.exec("select lockstep.set_limits(payload_bytes => 100)")
			s.replayAll(1000)
			for range 3 {
				s.due()
			}
			want("letters left", s.letters(), "a1")
			want("the end", value[string](s.session, "select concat_ws(' ', state, replayed, kept, remaining) from lockstep.replays"), "done 1 1 0")
		},
	})
}

// What people delete by hand from under a blocked head must not leave its lane
// without a way out.
func TestBlockedHeadWithoutLetter(t *testing.T) {
	t.Parallel()
	for name, decide := range map[string]struct{ by, lane string }{
		"replay":  {"select lockstep.replay(%d)", "a1:r a2:w"},
		"discard": {"select lockstep.discard(%d)", "a2:r"},
		"unblock": {"select lockstep.unblock_lane('default', '', 'a')", "a2:r"},
		"sweep":   {"select lockstep.sweep()", "a1:blocked a2:w"},
		"policy":  {"select lockstep.set_queue('default', on_dead => 'skip')", "a2:r"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, func(s *scene) {
				s.exec("select lockstep.set_queue('default', on_dead => 'block')")
				s.dead("a1")
				id := value[int64](s.session, "delete from lockstep.dead_job returning id")
				s.put("a", "a2")
				want("before", s.lane("a"), "a1:blocked a2:w")
				s.exec(strings.ReplaceAll(decide.by, "%d", strconv.FormatInt(id, 10)))
				want("after", s.lane("a"), decide.lane)
				letters := map[string]string{"unblock": "a1", "sweep": "a1", "policy": "a1"}
				want("letters", s.letters(), letters[name])
			})
		})
	}
}

func TestSeen_AReplayPastALoweredLimitIsTold(t *testing.T) {
	prove(t, rule{
		must:    "a replay of a letter that a lowered limit refuses says so in words of its own, and the letter stays",
		without: map[string]cut{"told": {[]edit{{"  exception when check_violation then\n    get stacked", "  exception when no_data_found then\n    get stacked"}}, "got 23514"}},
		scene: func(s *scene) {
			s.exec("insert into lockstep.job (kind, payload) values ('k', jsonb_build_object('n', repeat('x', 2000)))")
			job := s.claimOne()
			want("dead", s.finish(store.Dead, job), "done")
			s.exec("select lockstep.set_limits(payload_bytes => 1024)")
			err := s.try("select lockstep.replay($1)", job.ID)
			want("the replay", code(err), "LS006")
			want("says why", strings.Contains(err.Error(), "at most 1024 are allowed"), true)
			s.exec("select lockstep.set_limits(payload_bytes => 4096)")
			want("afterwards", s.value("lockstep.replay(max(id)) from lockstep.dead_job"), "replayed")
		},
	})
}

func TestSeen_AJobIsLookedForEverywhereAtOneMoment(t *testing.T) {
	prove(t, rule{
		must: "whether there is such a job is asked by one statement: of two, the first may find it dead, and the second find it replayed",
		without: map[string]cut{"two looks": {[]edit{{
			"select case when exists (select 1 from @schema@.job j where j.id = absent.id) then 'busy'\n",
			"if exists (select 1 from @schema@.job j where j.id = absent.id) then return 'busy'; end if; perform pg_advisory_xact_lock(1);\nselect case\n",
		}}, "there is no job"}},
		scene: func(s *scene) {
			gate, canceller := s.enter(), s.enter()
			s.dead("a")
			gate.exec("begin; select pg_advisory_xact_lock(1)")
			call := s.start(canceller, "select lockstep.cancel(id) from lockstep.dead_job")
			call.waits() // between the two looks
			s.exec("select lockstep.replay(id) from lockstep.dead_job")
			gate.exec("commit")
			must("cancel", call.wait())
		},
	})
}

func TestSeen_ADiscardThatIsBusyChangesNothing(t *testing.T) {
	prove(t, rule{
		must: "a discard that can't have the lane leaves its dead head in place: whoever replays it instead would find it at the end of the lane",
		without: map[string]cut{"undone": {[]edit{{
			"raise exception using errcode = 'LS000'; -- undone: the head keeps its place, for a replay", "return 'busy';",
		}}, "replay: got busy, want replayed"}},
		scene: func(s *scene) {
			s.exec("select lockstep.set_queue('default', on_dead => 'block')")
			s.dead("a1")
			producer := s.enter()
			producer.exec("begin; select pg_advisory_xact_lock(lockstep.entry_lock('default', '', 'a'))")
			want("discard", s.value("lockstep.discard(id) from lockstep.dead_job"), "busy")
			want("replay", s.value("lockstep.replay(id) from lockstep.dead_job"), "replayed")
			want("lane", s.lane("a"), "a1:r")
		},
	})
}

func TestSeen_ADiscardTakesNoJobThatWasReplayed(t *testing.T) {
	prove(t, rule{
		must:  "a discard of a head whose letter was deleted by hand looks again, with the row locked, whether it is dead: it may have been replayed, and run",
		tuned: []edit{{"  head := array(", "  perform pg_advisory_xact_lock(1);\n  head := array("}}, // a gate between the two looks
		without: map[string]cut{"look": {[]edit{{
			"j.id = discard.id and j.hold = 'x' and not j.settled for update skip locked);", "j.id = discard.id and not j.settled for update skip locked);",
		}}, "lane: got"}},
		scene: func(s *scene) {
			s.exec("select lockstep.set_queue('default', on_dead => 'block')")
			s.dead("a1")
			id := value[int64](s.session, "delete from lockstep.dead_job returning id")
			gate, operator := s.enter(), s.enter()
			gate.exec("begin; select pg_advisory_xact_lock(1)")
			call := s.start(operator, "select lockstep.discard($1)", id)
			call.waits()
			want("replay", value[string](s.session, "select lockstep.replay($1)", id), "replayed")
			job := s.claimOne()
			s.exec("select lockstep.set_queue('default', on_dead => 'skip')")
			gate.exec("commit")
			must("discard", call.wait())
			want("lane", s.lane("a"), "a1:r")
			want("finish", s.finish(store.Completed, job), "done")
		},
	})
}
