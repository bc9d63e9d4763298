package roles

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// deeds are what people and programs do, by how docs/roles.md calls it. Each
// statement does or would do it; an error other than that it is forbidden means
// that it is allowed.
var deeds = map[string][]string{
	"enqueue, by function": {
		"select lockstep.enqueue('k', tenant => 'acme')", "select lockstep.enqueue('k', tenant => 'acme', ordering_key => 'a', dedupe_key => 'd')",
		`select lockstep.enqueue_many('[{"kind": "k", "tenant": "acme"}, {"kind": "k", "tenant": "acme", "dedupe_key": "e"}]')`,
		`select lockstep.enqueue_many('[{"kind": "k", "tenant": "acme", "idempotency_key": "m"}, {"kind": "k", "tenant": "acme", "dedupe_key": "f", "idempotency_key": "n"}]')`,
		"select lockstep.enqueue('k', tenant => 'acme', dedupe_key => 'd', dedupe => 'replace'), lockstep.enqueue('k', tenant => 'acme', dedupe_key => 'd', dedupe => 'replace')",
		"select lockstep.enqueue('k', tenant => 'acme', idempotency_key => 'i'), lockstep.enqueue('k', tenant => 'acme', idempotency_key => 'i')",
	},
	"enqueue, by a plain INSERT": {"insert into lockstep.job (kind, ordering_key, tenant) values ('k', 'a', 'acme')"},
	"name a job's stage, turn or fence": {
		"insert into lockstep.job (kind, tenant, stage) values ('k', 'acme', 'r')", "insert into lockstep.job (kind, tenant, turn) values ('k', 'acme', 1)",
		"insert into lockstep.job (kind, tenant, fence) values ('k', 'acme', 1)",
	},
	"read the tables' payloads": {"select payload from lockstep.job", "select payload from lockstep.dead_job", "select payload from lockstep.finished_job"},
	"change tables by hand": {
		"update lockstep.job set priority = 1", "delete from lockstep.job", "delete from lockstep.dead_job", "delete from lockstep.queue", "truncate lockstep.job",
	},
	"register, claim, report": {
		"select lockstep.register(gen_random_uuid(), 'd', '{default}', '{k}', '1 minute')", "select lockstep.deregister(gen_random_uuid())",
		"select lockstep.claim(gen_random_uuid(), 'default', '{k}', 1, '1 minute')", "select lockstep.extend(gen_random_uuid(), '{1}', '{1}', '1 minute')",
		"select lockstep.finish(gen_random_uuid(), '{1}', '{1}', '{completed}', '{null}', '{null}', '{null}')",
		"select lockstep.complete(gen_random_uuid(), 1, 1)", "select lockstep.fail(gen_random_uuid(), 1, 1, 'error')",
		"select lockstep.snooze(gen_random_uuid(), 1, 1, '1 minute')", "select lockstep.release(gen_random_uuid(), 1, 1)",
		"select lockstep.assert_claim(1, 1)", "select lockstep.hold_lane(1, 1)", "select lockstep.paused('{1}')", "select lockstep.end_stuck(1, 1, 1, '2030-01-01')",
	},
	"due, sweep, upkeep":      {"select lockstep.due()", "select lockstep.sweep()", "select lockstep.upkeep()"},
	"count jobs, for metrics": {"select lockstep.count_jobs()"},
	"retry now, reschedule, set a priority": {
		"select lockstep.retry_now(1)", "select lockstep.reschedule(1, delay => '1 hour')", "select lockstep.set_priority(1, 2)",
	},
	"pause and resume": {"select lockstep.pause('default')", "select lockstep.resume('default')"},
	"cancel, replay, discard, purge": {
		"select lockstep.cancel(1)", "select lockstep.replay(1)", "select lockstep.discard(1)", "select lockstep.start_replay()",
		"select lockstep.cancel_replay(1)", "select lockstep.purge_dead('1 day')",
	},
	"unblock and skip lanes":  {"select lockstep.unblock_lane('default', '', 'a')", "select lockstep.skip_head('default', '', 'a')"},
	"set policies and limits": {"select lockstep.set_queue('q')", "select lockstep.set_limits(retention => '8 days')"},
	"after_failover":          {"select lockstep.after_failover()"},
	"read the views, without payload": {
		"select id, state, error from lockstep.jobs", "select id from lockstep.dead_jobs", "select * from lockstep.attempts", "select * from lockstep.queues",
		"select * from lockstep.lanes", "select * from lockstep.dispatchers", "select * from lockstep.queue_stats", "select * from lockstep.replays",
		"select * from lockstep.blocked_lanes", "select * from lockstep.dead_letters", "select lockstep.list_dead()", "select lockstep.list_blocked()", "select lockstep.job_outline(1)",
	},
	"read payloads, headers, results": {
		"select payload from lockstep.jobs", "select headers from lockstep.dead_jobs", "select result from lockstep.jobs",
		"select * from lockstep.jobs", "select lockstep.job_status(1)", "select lockstep.show_dead(1)",
	},
	"its own tenant's jobs: see, cancel, replay, discard": {
		"select lockstep.tenant_jobs()", "select lockstep.tenant_status(1)", "select lockstep.tenant_cancel(1)", "select lockstep.tenant_replay(1)",
		"select lockstep.tenant_discard(1)",
	},
	"grant and revoke": {"select lockstep.grant_worker('postgres')", "select lockstep.revoke_role('postgres')", "select lockstep.secure()"},
	"the parts of other functions": {
		"select lockstep.signal('r', 'default', 1)", "select lockstep.archive('{}', '{}', '{}', '{}')", "select lockstep.place('{1}', true)",
		"select lockstep.lock_queue('default', 1, clock_timestamp())", "select lockstep.next_fence()", "select lockstep.drop_partition('lockstep.job')",
		"select lockstep.replay_letter(1, false)", "select lockstep.promote('{1}')", "select lockstep.make_ready('{1}')",
	},
}

// columns are the roles of the table in docs/roles.md, and how one is made.
var columns = []struct{ name, grant string }{
	{"producer", "grant_producer"},
	{"worker", "grant_worker"},
	{"operator", "grant_operator"},
	{"reader", "grant_reader"},
	{"reader with payload", "grant_reader"},
	{"tenant", "grant_tenant"},
	{"anyone", ""},
}

// TestTableOfRoles holds every cell of the table against the database.
func TestTableOfRoles(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../docs/roles.md")
	if err != nil {
		t.Fatal(err)
	}
	db := testdb.New(t)
	sessions := make([]string, len(columns))
	for i, column := range columns {
		sessions[i] = roles(t, db, column.name)[0]
		if column.grant != "" {
			args := "$1"
			if column.name == "reader with payload" {
				args = "$1, payload => true"
			}
			db.Exec(t, "select lockstep."+column.grant+"("+args+")", sessions[i])
		}
	}
	found := 0
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+?) \|((?: (?:yes|no) \|)+)$`).FindAllStringSubmatch(string(content), -1) {
		statements, known := deeds[row[1]]
		cells := strings.Fields(strings.ReplaceAll(row[2], "|", " "))
		if !known || len(cells) != len(columns) {
			t.Errorf("the table has a row that is not tested: %s", row[0])
			continue
		}
		found++
		for i, cell := range cells {
			conn := as(t, db, sessions[i], "lockstep.tenant", "acme")
			for _, statement := range statements {
				if err := try(t, conn, statement); (code(err) != "42501") != (cell == "yes") {
					t.Errorf("%s, %s: %q, %s: %v", columns[i].name, row[1], cell, statement, err)
				}
			}
			_ = conn.Close(t.Context())
		}
	}
	if found != len(deeds) {
		t.Errorf("the table has %d of %d rows", found, len(deeds))
	}
	if !slices.ContainsFunc(strings.Split(string(content), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "| | producer | worker | operator | reader | reader with payload | tenant | anyone |")
	}) {
		t.Error("the table has other columns than are tested")
	}
}
