package store_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// TestListsMeetEveryFilter: each filter of jobs, by every state, finds what a
// look at all jobs does, page by page, and the count agrees.
func TestListsMeetEveryFilter(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	s := store.New(db.Pool(t))
	db.Exec(t, "select lockstep.set_queue('q1', on_dead => 'block')")
	db.Exec(t, `select lockstep.enqueue('k' || i % 3, queue => 'q' || i % 2, ordering_key => case when i % 4 < 2 then 'o' || i % 5 end,
		tenant => case when i % 7 = 0 then 't' else '' end, delay => case when i % 11 = 0 then interval '1 h' else '0' end) from generate_series(1, 60) i`)
	db.Exec(t, `do $$
		declare w constant uuid := '00000000-0000-4000-8000-000000000001'; c record; n integer := 0;
		begin
		  for c in select j.id, j.fence from generate_series(0, 1) q, lockstep.claim(w, 'q' || q, '{k0,k1,k2}', 12, '30 s') k, json_to_recordset(k.jobs) j(id bigint, fence bigint) loop
		    n := n + 1;
		    if n % 4 = 0 then perform lockstep.complete(w, c.id, c.fence);
		    elsif n % 4 < 3 then perform lockstep.fail(w, c.id, c.fence, 'no good', permanent => n % 4 = 1); end if;
		  end loop;
		end $$`)
	db.Exec(t, "select lockstep.cancel(id) from lockstep.jobs where state in ('waiting', 'scheduled') and id % 5 = 0")
	all := testdb.Value[int](t, db, "select count(distinct state) from lockstep.jobs")
	if all < 7 {
		t.Errorf("only %d states", all)
	}
	for _, f := range []store.JobFilter{
		{},
		{Queue: "q1"},
		{Kind: "k2"},
		{Tenant: "t"},
		{OrderingKey: "o1"},
		{Queue: "q0", Kind: "k0", OrderingKey: "o0"},
		{Queue: "none"},
		{State: store.StateScheduled},
		{State: store.StateWaiting},
		{State: store.StateReady},
		{State: store.StateRunning},
		{State: store.StateRetrying},
		{State: store.StateCompleted},
		{State: store.StateCancelled},
		{State: store.StateDead},
		{State: store.StateDead, Queue: "q1"},
		{State: store.StateWaiting, Kind: "k1"},
	} {
		want := testdb.Value[[]int64](t, db, `select coalesce(array_agg(id order by id desc), '{}') from lockstep.jobs
			where $1 in ('', state) and $2 in ('', queue) and $3 in ('', kind) and $4 in ('', tenant) and ($5 = '' or ordering_key = $5)`,
			string(f.State), f.Queue, f.Kind, f.Tenant, f.OrderingKey)
		if n, err := s.JobsMatching(t.Context(), f, 10); err != nil || n != min(len(want), 10) {
			t.Errorf("%+v: %d match, %v; want %d", f, n, err, min(len(want), 10))
		}
		got := []int64{}
		for page := f; ; page.Before = got[len(got)-1] {
			jobs, err := s.Jobs(t.Context(), page, 7)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range jobs {
				got = append(got, j.ID)
			}
			if len(jobs) < 7 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", f, got, want)
		}
	}
}

// TestWaitingForIsNotCompiled: the look-up of dispatchers seems so dear to the
// planner that a server with JIT would compile it, once for each job of a list.
func TestWaitingForIsNotCompiled(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	if !testdb.Value[bool](t, db, "select 'jit=off' = any (proconfig) from pg_proc where proname = 'waiting_for' and pronamespace = 'lockstep'::regnamespace") {
		t.Error("waiting_for may be compiled")
	}
}

// TestListsInAnyDateStyle: lists are read as other answers are, whatever times
// look like in the session.
func TestListsInAnyDateStyle(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, `insert into lockstep.job (kind, ordering_key, payload) values ('k', 'a', '{"n": 1}')`)
	conn := db.Conn(t)
	if _, err := conn.Exec(t.Context(), "set datestyle = 'German'; set timezone = 'Asia/Kathmandu'; set intervalstyle = 'iso_8601'"); err != nil {
		t.Fatal(err)
	}
	jobs, err := store.New(conn).Jobs(t.Context(), store.JobFilter{Kind: "k"}, 10)
	if err != nil || len(jobs) != 1 || time.Since(jobs[0].CreatedAt).Abs() > time.Minute {
		t.Errorf("jobs: %+v, %v", jobs, err)
	}
	lanes, err := store.New(conn).Lanes(t.Context(), store.LaneFilter{}, 10)
	if err != nil || len(lanes) != 1 || time.Since(lanes[0].HeadSince).Abs() > time.Minute || lanes[0].Age < 0 || lanes[0].Age > time.Minute {
		t.Errorf("lanes: %+v, %v", lanes, err)
	}
}

// TestIntervalsInAnyStyle: where answers come as text, as behind some poolers,
// intervals are read whatever the session's IntervalStyle is.
func TestIntervalsInAnyStyle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	config, err := pgx.ParseConfig(r.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "set intervalstyle = 'iso_8601'"); err != nil {
		t.Fatal(err)
	}
	s := store.New(conn)
	r.db.Exec(t, "select lockstep.register($1, 'd', '{q}', '{k}', '90 s'), lockstep.set_queue('q', backoff_base => '1.5 s', backoff_cap => '3 days')", r.worker)
	known, err := s.Dispatchers(t.Context())
	if err != nil || len(known) != 1 || known[0].Lease != 90*time.Second {
		t.Errorf("dispatchers: %+v, %v", known, err)
	}
	claimed, err := s.Claim(t.Context(), store.ClaimArgs{Worker: r.worker, Queue: "q", Kinds: []string{"k"}, Max: 1, Lease: time.Minute})
	if err != nil || claimed.LookAgain != 90*time.Second {
		t.Errorf("look again in %v, %v", claimed.LookAgain, err)
	}
	queues, err := s.Queues(t.Context(), "", 10)
	if err != nil || len(queues) != 1 || queues[0].BackoffBase != 1500*time.Millisecond || queues[0].BackoffCap != 72*time.Hour {
		t.Errorf("queues: %+v, %v", queues, err)
	}
	r.db.Exec(t, "begin; select 1")
	defer r.db.Exec(t, "rollback")
	if full, err := s.NotifyQueue(t.Context()); err != nil || len(full.Open) == 0 || full.Open[0].Age < 0 {
		t.Errorf("notifications: %+v, %v", full, err)
	}
}
