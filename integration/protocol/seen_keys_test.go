package protocol_test

import (
	"testing"

	"github.com/lockstep-pg/lockstep/store"
)

// ask enqueues a version of job K under a policy, and answers "outcome id".
func (c *session) ask(policy string, version int) string {
	return value[string](c, `select outcome || ' ' || id from lockstep.enqueue('k', jsonb_build_object('n', ($2::int)::text),
		ordering_key => 'K', dedupe_key => 'K', dedupe => $1)`, policy, version)
}

// stopUpdates begins a transaction until whose end others wait where they update
// a column: "payload on lockstep.job".
func (c *session) stopUpdates(column string) {
	c.exec(`create function hold_on() returns trigger language plpgsql as 'begin perform pg_advisory_xact_lock(1); return new; end';
		create trigger hold_on before update of ` + column + ` for each row execute function hold_on()`)
	c.exec("begin; select pg_advisory_xact_lock(1)")
}

func TestSeen_AnIdleProducerHoldsNoJobItReplaces(t *testing.T) {
	prove(t, rule{
		must: "a request that replaces a payload does not touch the job's row before its commit: the lane would stand as long as the producer idles",
		without: map[string]cut{"at the commit": {[]edit{{
			"deferrable initially deferred for each row execute function @schema@.note_commit()",
			"deferrable initially immediate for each row execute function @schema@.note_commit()",
		}}, "jobs claimed"}},
		scene: func(s *scene) {
			producer := s.enter()
			s.ask("one_more", 1)
			producer.exec("begin")
			producer.ask("one_more", 2)
			first := s.claimOne()
			want("payload", nameOf(first), "1")
			want("finish", s.finish("completed", first), "done")
			producer.exec("commit") // too late for the job, which is over
			s.exec("select lockstep.due()")
			want("the payload that came too late for its job", nameOf(s.claimOne()), "2")
		},
	})
}

func TestSeen_AClaimLooksForPayloadsThatACommitLeft(t *testing.T) {
	prove(t, rule{
		must: "a claim puts in what the commit could not, because somebody had the job's row for a moment: else it runs an older payload than was committed before it",
		without: map[string]cut{"look": {[]edit{{
			"if not exists (select 1 from @schema@.dedupe_note n where n.turn > 0 and not n.missed) then", "if true then",
		}}, "got 1, want 3"}},
		scene: func(s *scene) {
			other := s.enter()
			s.ask("replace", 1)
			other.exec("begin; select from lockstep.job for update")
			s.ask("replace", 2)
			s.ask("replace", 3)
			want("payloads that wait", value[string](s.session, "select string_agg(state, ' ') from lockstep.noted_payloads"), "pending pending")
			other.exec("rollback")
			want("payload", nameOf(s.claimOne()), "3")
			want("payloads that wait", value[int](s.session, "select count(*)::int from lockstep.noted_payloads"), 0)
		},
	})
}

func TestSeen_OneMoreAndANewJobMeetAtTheGate(t *testing.T) {
	prove(t, rule{
		must: "whoever took a seat of a dedupe key goes through its gate: one more that is not committed, and a new job after the claimed one has left, can't see each other",
		without: map[string]cut{"gate": {[]edit{{
			"perform @schema@.enter_gate(pass_gate.queue, pass_gate.tenant, pass_gate.dedupe_key);", "",
		}}, "jobs of the key: got 2, want 1"}},
		scene: func(s *scene) {
			first, second := s.enter(), s.enter()
			s.ask("one_more", 1)
			job := s.claimOne()
			first.exec("begin")
			first.ask("one_more", 2)
			want("finish", s.finish("completed", job), "done")
			call := s.start(second, `select lockstep.enqueue('k', '{"n": "3"}', ordering_key => 'K', dedupe_key => 'K', dedupe => 'one_more')`)
			call.waits()
			first.exec("commit")
			must("the second request", call.wait())
			want("jobs of the key", value[int](s.session, "select count(*)::int from lockstep.job"), 1)
			want("payload", nameOf(s.claimOne()), "3")
		},
	})
}

func TestSeen_AnOlderPayloadDoesNotReplaceANewerOne(t *testing.T) {
	prove(t, rule{
		must: "a payload whose job was claimed before its commit goes into a job that others made meanwhile only if that was committed before it",
		without: map[string]cut{"age": {[]edit{{
			"coalesce(pg_catalog.pg_visible_in_snapshot(enqueued_xid, seen), true) else note_turn < turn end", "true else true end",
		}}, "got 2, want 3"}},
		scene: func(s *scene) {
			producer := s.enter()
			s.ask("one_more", 1)
			producer.exec("begin")
			producer.ask("one_more", 2)
			job := s.claimOne()
			producer.exec("commit") // left: its job has been claimed
			s.ask("one_more", 3)    // newer
			s.exec("select lockstep.due()")
			want("finish", s.finish("completed", job), "done")
			want("payload", nameOf(s.claimOne()), "3")
		},
	})
}

// A payload of a transaction that began before others is the newest all the
// same, if it commits last.
func TestTheLastToCommitReplaces(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		early, late := s.enter(), s.enter()
		s.ask("replace", 1)
		early.exec("begin")
		early.ask("replace", 2)
		late.exec("begin")
		late.ask("replace", 3)
		late.exec("commit")
		early.exec("commit")
		want("payload", nameOf(s.claimOne()), "2")
	})
}

// What comes too late under replace is kept to be looked at.
func TestAMissedPayloadStaysOnRecord(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		producer := s.enter()
		s.ask("replace", 1)
		producer.exec("begin")
		producer.ask("replace", 2)
		job := s.claimOne()
		producer.exec("commit")
		s.exec("select lockstep.due()")
		want("payload", value[string](s.session, "select state || ' ' || (payload ->> 'n') from lockstep.noted_payloads"), "missed 2")
		want("finish", s.finish("failed", job), "done")
		want("payload of the retry", nameOf(s.claimOne()), "1")
		s.exec("update lockstep.dedupe_note set created_at = clock_timestamp() - interval '8 days'; select lockstep.upkeep()")
		want("payloads on record", value[int](s.session, "select count(*)::int from lockstep.noted_payloads"), 0)
	})
}

// A transaction that can't see what is committed, and one that is prepared,
// leave their payloads to others.
func TestPayloadsOfOldSnapshotsAndPreparedTransactions(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		producer := s.enter()
		s.ask("replace", 1)
		producer.exec("begin isolation level repeatable read")
		producer.ask("replace", 2)
		producer.exec("commit")
		want("payloads that wait", value[string](s.session, "select string_agg(state, ' ') from lockstep.noted_payloads"), "pending")
		s.exec("select lockstep.due()")
		want("payload", value[string](s.session, "select payload ->> 'n' from lockstep.job"), "2")
		want("finish", s.finish("completed", s.claimOne()), "done")
	})
}

func TestACancelTakesThePayloadAlong(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		other := s.enter()
		s.ask("one_more", 1)
		other.exec("begin; select from lockstep.job for update")
		s.ask("one_more", 2)
		other.exec("rollback; select lockstep.cancel(id) from lockstep.job; select lockstep.due()")
		want("jobs", value[int](s.session, "select count(*)::int from lockstep.job"), 0)
		want("payload", value[string](s.session, "select payload ->> 'n' from lockstep.finished_job"), "2")
	})
}

func TestSeen_PayloadsOfAHeldJobHoldUpNoOthers(t *testing.T) {
	prove(t, rule{
		must: "payloads noted for jobs whose rows somebody holds are passed by, however many: those of other jobs would wait for as long",
		without: map[string]cut{
			"paging": {[]edit{{"  for round in 1 .. 30 loop\n    for note in", "  for round in 1 .. 1 loop\n    for note in"}}, "payloads missed behind those of one job"},
			"chance": {[]edit{{"    final := round = 29 or clock_timestamp() > until;\n", ""}}, "payloads missed behind those of many"},
		},
		scene: func(s *scene) {
			producer, holder := s.enter(), s.enter()
			late := func() { // the payload of a job that is claimed before it is committed
				s.exec("select lockstep.enqueue('k', queue => 'other', dedupe_key => 'late')")
				producer.exec("begin; select lockstep.enqueue('k', queue => 'other', dedupe_key => 'late', dedupe => 'replace')")
				want("finish", s.finish(store.Completed, s.claimFrom("other", 1)...), "done")
				producer.exec("commit")
			}
			missed := func() int {
				return value[int](s.session, "select count(*) from lockstep.noted_payloads where state = 'missed'")
			}
			s.exec("select lockstep.enqueue('k', dedupe_key => i::text) from generate_series(1, 300) i")
			holder.exec("begin; select from lockstep.job for update")
			s.exec("select lockstep.enqueue('k', dedupe_key => '1', dedupe => 'replace') from generate_series(1, 30) i")
			late()
			s.due()
			want("payloads missed behind those of one job", missed(), 1)

			s.exec("select lockstep.enqueue('k', dedupe_key => i::text, dedupe => 'replace') from generate_series(2, 300) i")
			late()
			for range 50 {
				if s.due(); missed() == 2 {
					break
				}
			}
			want("payloads missed behind those of many", missed(), 2)
			holder.exec("rollback")
			for range 12 {
				s.due()
			}
			want("payloads that wait", value[int](s.session, "select count(*) from lockstep.noted_payloads where state = 'pending'"), 0)
		},
	})
}

func TestSeen_APayloadThatIsTooLongByNowHoldsUpNobody(t *testing.T) {
	prove(t, rule{
		must: "a one more that a limit, lowered since, keeps from becoming a job is missed: due() would fail for all, and for good",
		without: map[string]cut{"limit": {[]edit{{
			"  when integrity_constraint_violation then -- a limit was lowered: due() must not fail for good\n", "  when no_data_found then\n",
		}}, "23514"}},
		scene: func(s *scene) {
			producer := s.enter()
			s.ask("one_more", 1)
			producer.exec("begin")
			producer.exec("select lockstep.enqueue('k', to_jsonb(repeat('x', 2000)), ordering_key => 'K', dedupe_key => 'K', dedupe => 'one_more')")
			s.claimOne()
			producer.exec("commit")
			s.exec("select lockstep.set_limits(payload_bytes => 1024)")
			s.exec("insert into lockstep.job (kind, run_at) values ('k', clock_timestamp() + interval '1 ms')")
			s.exec("select pg_sleep(0.01)")
			want("due", value[int](s.session, "select due from lockstep.due()"), 1)
			want("the payload", value[string](s.session, "select string_agg(state, ' ') from lockstep.noted_payloads"), "missed")
		},
	})
}

func TestSeen_APayloadNotedWithoutTriggersIsSettled(t *testing.T) {
	prove(t, rule{
		must: "a payload noted where triggers were off is put in after the next sweep, and until then no claim sends its worker to look again at once",
		without: map[string]cut{
			"sweep": {[]edit{{"    perform @schema@.turn_strays();\n", ""}}, "pending: got 1"},
			"claim": {[]edit{{
				"or exists (select 1 from @schema@.dedupe_note n where n.turn > 0 and not n.missed)", "or exists (select 1 from @schema@.dedupe_note n where not n.missed)",
			}}, "looks again at once: got true"},
		},
		scene: func(s *scene) {
			s.exec("select lockstep.enqueue('k', dedupe_key => 'd', delay => '1 hour')")
			s.exec("set session_replication_role = replica")
			s.exec("select lockstep.enqueue('k', '{\"n\": \"2\"}', dedupe_key => 'd', dedupe => 'replace')")
			s.exec("reset session_replication_role")
			want("looks again at once", value[bool](s.session, "select due_at <= looked_at from lockstep.claim(gen_random_uuid(), 'default', '{k}', 1, '1 min')"), false)
			s.exec("select lockstep.sweep()")
			s.exec("select lockstep.due()")
			want("pending", value[int](s.session, "select count(*)::int from lockstep.noted_payloads"), 0)
			want("payload", value[string](s.session, "select payload ->> 'n' from lockstep.job"), "2")
		},
	})
}

func TestSeen_ACommitThatWaitsForALaneHoldsNoJobItReplaces(t *testing.T) {
	prove(t, rule{
		must: "a commit places what it enqueued before it locks the job whose payload it replaces: else that job stands as long as the commit waits for a lane",
		without: map[string]cut{"first": {[]edit{{
			"    perform @schema@.place_noted();\n", "",
		}}, "jobs claimed: got 0, want 1"}},
		scene: func(s *scene) {
			holder, producer := s.enter(), s.enter()
			s.ask("replace", 1)
			holder.exec("begin; select pg_advisory_xact_lock(lockstep.entry_lock('default', '', 'busy'))")
			producer.exec("begin")
			producer.ask("replace", 2)
			producer.put("busy", "a")
			commit := s.start(producer, "commit")
			commit.waits()
			first := s.claimOne()
			want("payload", nameOf(first), "1")
			holder.exec("commit")
			must("the commit", commit.wait())
		},
	})
}

func TestSeen_AClaimLooksForPayloadsOfItsKey(t *testing.T) {
	prove(t, rule{
		must: "a claim of one more puts in what was noted for the job before it, too: else it runs an older payload than was committed before it",
		without: map[string]cut{"of the key": {[]edit{{
			"o.kind = j.kind and o.dedupe = 'one_more'\n", "false\n",
		}}, "payload: got 2, want 3"}},
		scene: func(s *scene) {
			second, third := s.enter(), s.enter()
			s.ask("one_more", 1)
			second.exec("begin")
			second.ask("one_more", 2)
			third.exec("begin")
			third.ask("one_more", 3)
			job := s.claimOne()
			second.exec("commit")
			s.exec("select lockstep.due()") // makes one more of it
			third.exec("commit")
			want("finish", s.finish("completed", job), "done")
			want("payload", nameOf(s.claimOne()), "3")
			want("payloads that wait", value[int](s.session, "select count(*)::int from lockstep.noted_payloads"), 0)
		},
	})
}

func TestSeen_APayloadThatComesMeanwhileIsKept(t *testing.T) {
	prove(t, rule{
		must:    "what was noted for a job is forgotten up to the note that was put into it: a later one may have been committed since that was chosen",
		without: map[string]cut{"up to": {[]edit{{"o.turn between 1 and newest", "o.turn > 0"}}, "payloads that wait: got 0, want 1"}},
		scene: func(s *scene) {
			other, worker := s.enter(), s.enter()
			s.ask("replace", 1)
			other.exec("begin; select from lockstep.job for update")
			s.ask("replace", 2)
			other.exec("rollback")
			other.stopUpdates("payload on lockstep.job")
			claim := s.start(worker, "select lockstep.claim(gen_random_uuid(), 'default', '{k}', 1, '1 min')")
			claim.waits()
			s.ask("replace", 3)
			other.exec("commit")
			must("claim", claim.wait())
			want("payloads that wait", value[int](s.session, "select count(*)::int from lockstep.noted_payloads"), 1)
		},
	})
}

func TestSeen_TheLastRequestOfACallIsTheNewest(t *testing.T) {
	prove(t, rule{
		must: "a call's job that gives way to another one is older than the payloads that the same call has noted for it, whether the commit can put them in or must leave them",
		without: map[string]cut{"anew": {[]edit{{
			"perform @schema@.note_anew(own.id, holder.id);",
			"update @schema@.dedupe_note n set job_id = holder.id where n.job_id = own.id and not n.missed;",
		}}, "payload: got 3, want 4"}},
		scene: func(s *scene) {
			meetAtTheGate(s, "")
			meetAtTheGate(s, "select from lockstep.job for update")
		},
	})
}

// meetAtTheGate has a call of two requests, 3 and 4, find at the gate that
// another producer's job is there, while somebody may hold that at its commit.
func meetAtTheGate(s *scene, hold string) {
	first, second, other := s.enter(), s.enter(), s.enter()
	s.ask("one_more", 1)
	job := s.claimOne()
	first.exec("begin")
	first.ask("one_more", 2)
	want("finish", s.finish("completed", job), "done")
	second.exec("begin")
	call := s.start(second, `select lockstep.enqueue_many('[{"kind": "k", "payload": {"n": "3"}, "ordering_key": "K", "dedupe_key": "K", "dedupe": "one_more"},
		{"kind": "k", "payload": {"n": "4"}, "ordering_key": "K", "dedupe_key": "K", "dedupe": "one_more"}]')`)
	call.waits()
	first.exec("commit")
	must("the call", call.wait())
	other.exec("begin; " + hold)
	second.exec("commit")
	other.exec("rollback")
	want("jobs of the key", value[int](s.session, "select count(*)::int from lockstep.job"), 1)
	job = s.claimOne()
	want("payload", nameOf(job), "4")
	want("payloads that wait", value[int](s.session, "select count(*)::int from lockstep.noted_payloads"), 0)
	want("finish", s.finish("completed", job), "done")
}

func TestSeen_APayloadThatSomebodyElseHasIsLeftToThem(t *testing.T) {
	prove(t, rule{
		must: "a claim puts in only those notes whose rows it has locked: due(), which may have another one, makes a further job of it, and the payload would run twice",
		without: map[string]cut{"lock": {[]edit{{
			"n.turn > 0 and not n.missed for update skip locked) l", "n.turn > 0 and not n.missed) l",
		}}, "payload: got 4, want 3"}},
		scene: func(s *scene) {
			second, third, other, worker := s.enter(), s.enter(), s.enter(), s.enter()
			s.ask("one_more", 1)
			second.exec("begin")
			second.ask("one_more", 2)
			third.exec("begin")
			third.ask("one_more", 3)
			job := s.claimOne()
			second.exec("commit; select lockstep.due()") // makes one more of it
			third.exec("commit")
			want("finish", s.finish("completed", job), "done")
			other.stopUpdates("job_id on lockstep.dedupe_note")
			claim := s.start(worker, "select lockstep.claim(gen_random_uuid(), 'default', '{k}', 1, '1 min')")
			claim.waits() // it has looked
			s.ask("one_more", 4)
			third.exec("begin; select from lockstep.dedupe_note where payload ->> 'n' = '4' for update")
			other.exec("commit")
			must("claim", claim.wait())
			want("payload", value[string](s.session, "select payload ->> 'n' from lockstep.job"), "3")
			third.exec("commit; select lockstep.due()")
			want("payloads", value[string](s.session, "select string_agg(payload ->> 'n', ' ' order by id) from lockstep.job"), "3 4")
		},
	})
}

func TestSeen_ACommitForgetsNoLaterPayload(t *testing.T) {
	prove(t, rule{
		must: "a commit that puts in its payload forgets the notes before it, not one that has drawn its turn since: an older one, which somebody has for a moment, would be taken for the newest",
		without: map[string]cut{"up to its turn": {[]edit{{
			"perform @schema@.forget_notes(new.job_id, fresh);", "perform @schema@.forget_notes(new.job_id, 9223372036854775807);",
		}}, "payload: got 3, want 4"}},
		scene: func(s *scene) {
			producer, other, due := s.enter(), s.enter(), s.enter()
			s.ask("replace", 1)
			other.stopUpdates("payload on lockstep.job")
			producer.exec("begin")
			producer.ask("replace", 2)
			commit := s.start(producer, "commit")
			commit.waits() // it has its turn, and the job's row
			s.ask("replace", 3)
			s.ask("replace", 4)
			due.exec("begin; select from lockstep.dedupe_note where payload ->> 'n' = '3' for update")
			other.exec("commit")
			must("the commit", commit.wait())
			due.exec("commit")
			want("payload", nameOf(s.claimOne()), "4")
		},
	})
}
