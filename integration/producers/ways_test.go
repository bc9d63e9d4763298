package producers_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// The jobs that come by each way, as COPY reads them: columns of copyColumns,
// by |. They meet in lanes, are due and not, have keys and none.
const (
	copyColumns = "kind, tenant, ordering_key, priority, run_at, max_attempts, dedupe_key, payload, headers"
	copyJobs    = `k||\N|0|2030-01-01 00:00:00+00|12|\N|{}|{}
k||a|0|2000-01-01 00:00:00+00|12|\N|{"n": 1}|{}
k||a|9|2000-01-01 00:00:00+00|1|d|{"n": 2}|{"trace": "t"}
l|acme|a|0|2000-01-01 00:00:00+00|12|\N|[1, "x"]|{}
k||a|0|2030-01-01 00:00:00+00|12|\N|{}|{}
k||\N|-9|2000-01-01 00:00:00+00|12|e|"text"|{}
k||b|0|2000-01-01 00:00:00+00|12|f|null|{}
`
)

// ways are the ways in. Each reads the jobs from the table wanted, but COPY, and
// puts them into its own queue.
var ways = map[string]string{
	"enqueue": `select count(lockstep.enqueue(kind, payload, queue => 'enqueue', tenant => tenant, ordering_key => ordering_key, priority => priority,
		run_at => run_at, max_attempts => max_attempts, dedupe_key => dedupe_key, headers => headers)) from (select * from wanted order by n) w`,
	"enqueue_many": `select count(*) from lockstep.enqueue_many((
		select jsonb_agg(jsonb_strip_nulls(to_jsonb(w) - 'n' - 'payload') || jsonb_build_object('payload', payload, 'queue', 'enqueue_many') order by n) from wanted w))`,
	"insert": "insert into lockstep.job (queue, " + copyColumns + ") select 'insert', " + copyColumns + " from wanted order by n",
	"one by one": `do $$ declare w wanted; begin for w in select * from wanted order by n loop
		insert into lockstep.job (queue, ` + copyColumns + `) values ('one by one', w.kind, w.tenant, w.ordering_key, w.priority, w.run_at, w.max_attempts,
			w.dedupe_key, w.payload, w.headers); end loop; end $$`,
	"copy":         "",
	"role, insert": "insert into lockstep.job (queue, " + copyColumns + ") select 'role, insert', " + copyColumns + " from wanted order by n returning id",
	"role, copy":   "",
}

// TestWaysIn: what comes by a plain INSERT, by COPY, or from a role that may name
// a few columns only, is what enqueue makes: the same rows, places and signals.
func TestWaysIn(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	role := db.Name + "_api"
	db.Exec(t, fmt.Sprintf(`
		create role %[1]s;
		create table wanted (n bigint generated always as identity, kind text, tenant text, ordering_key text, priority int, run_at timestamptz,
			max_attempts int, dedupe_key text, payload jsonb, headers jsonb);
		grant usage on schema lockstep to %[1]s;
		grant insert (queue, %[2]s), select (id) on lockstep.job to %[1]s;
		grant usage on sequence lockstep.turn, lockstep.job_id_seq to %[1]s;
		grant execute on function lockstep.next_turn, lockstep.payload_limit, lockstep.text_limit to %[1]s;
		grant select on wanted to %[1]s`, role, copyColumns))
	t.Cleanup(func() { dropRoles(t, db, role) })
	newClient(t, db).copyIn("wanted ("+copyColumns+")", copyJobs)
	want, wantSignals := "", []string(nil)
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		c, listener := newClient(t, db), newClient(t, db)
		listener.listen("lockstep")
		if strings.HasPrefix(way, "role") {
			c.do("set role " + role)
		}
		if sql := ways[way]; sql != "" {
			c.do(sql)
		} else {
			c.copyIn("lockstep.job (queue, "+copyColumns+")", way+"|"+strings.ReplaceAll(strings.TrimSpace(copyJobs), "\n", "\n"+way+"|")+"\n")
		}
		signals := listener.classes(db, way)
		rows := testdb.Value[string](t, db, image, way)
		if want == "" {
			want, wantSignals = rows, signals
		}
		if rows != want {
			t.Errorf("by %s the jobs are\n%s\nwant\n%s", way, rows, want)
		}
		if !slices.Equal(signals, wantSignals) {
			t.Errorf("by %s the signals are %v, want %v", way, signals, wantSignals)
		}
	}
	if !strings.Contains(want, `"stage": "w"`) || len(wantSignals) != 2 {
		t.Fatalf("the jobs do not meet, or signal %v:\n%s", wantSignals, want)
	}
}

// image is all of a queue's jobs but what numbers and times differ in: of those
// their order.
const image = `select string_agg((to_jsonb(j) - '{id,turn,lane_turn,queue,enqueued_xid,created_at}'::text[])::text, e'\n' order by id)
	from (select *, case when stage = 'r' then rank() over (partition by stage order by turn) end as place,
	             case when lane_turn > 0 then rank() over (partition by tenant, ordering_key, lane_turn > 0 order by lane_turn) end as lane_place
	        from lockstep.job where queue = $1) j`

// copyIn copies lines of columns, by |, in.
func (c *client) copyIn(what, lines string) {
	c.t.Helper()
	sql := "copy " + what + ` from stdin (delimiter '|')`
	if _, err := c.PgConn().CopyFrom(c.t.Context(), strings.NewReader(lines), sql); err != nil {
		c.t.Fatalf("%v\nin: %s", err, sql)
	}
}

// classes are the signals that came for a queue: their class, and when something
// falls due.
func (c *client) classes(db *testdb.DB, queue string) []string {
	c.t.Helper()
	hash := testdb.Value[string](c.t, db, "select lockstep.queue_hash($1)", queue)
	c.do("listen own; select pg_notify('own', '')")
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	var classes []string
	for {
		signal, err := c.WaitForNotification(ctx)
		if err != nil {
			c.t.Fatal(err)
		}
		if signal.Channel == "own" {
			slices.Sort(classes)
			return classes
		}
		fields := strings.Fields(signal.Payload)
		if len(fields) < 2 || fields[1] != hash {
			c.t.Errorf("a signal of another queue: %s", signal.Payload)
		}
		if fields[0] == "r" {
			fields = fields[:1]
		}
		classes = append(classes, strings.Replace(strings.Join(fields, " "), hash, "", 1))
	}
}
