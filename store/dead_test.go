package store_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// odd are names and values with SQL in them, which have to be data everywhere.
var odd = []string{`a'b`, `a"b`, `a;--`, `$1`, `a\\b`, "a\nb", "\u202eabc", " a  b ", `{a,"b`, `$lockstep$`}

// kill enqueues a job and lets it fail for good.
func (r *rig) kill(job store.NewJob, reason string) int64 {
	r.t.Helper()
	job.Kind = "k"
	enqueued, err := r.Enqueue(r.t.Context(), job)
	if err != nil {
		r.t.Fatal(err)
	}
	claimed, err := r.Claim(r.t.Context(), store.ClaimArgs{Worker: r.worker, Queue: cmpOr(job.Queue), Kinds: []string{"k"}, Max: 1, Lease: lease})
	if err != nil || len(claimed.Jobs) != 1 {
		r.t.Fatal(claimed, err)
	}
	if answer := r.finish(store.FinishArgs{}, store.Finish{Claim: claim(claimed.Jobs[0]), Outcome: store.Dead, Error: reason}); answer.State != store.FinishDone {
		r.t.Fatal(answer)
	}
	return enqueued.ID
}

func cmpOr(queue string) string {
	if queue == "" {
		return "default"
	}
	return queue
}

func (r *rig) listed(filter store.DeadFilter, page store.DeadPage) (ids []int64) {
	r.t.Helper()
	letters, err := r.ListDead(r.t.Context(), filter, page)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, letter := range letters {
		ids = append(ids, letter.ID)
	}
	return ids
}

func TestListDead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.kill(store.NewJob{Queue: "q", OrderingKey: "a", Payload: map[string]int{"n": 1}}, "timeout: 30 s")
	second := r.kill(store.NewJob{Tenant: "acme"}, "100% of 5_0")
	third := r.kill(store.NewJob{}, "timeout: 40 s")
	died := r.showDead(second).DiedAt
	for name, test := range map[string]struct {
		filter store.DeadFilter
		want   []int64
	}{
		"all":          {store.DeadFilter{}, []int64{third, second, first}},
		"queue":        {store.DeadFilter{Queue: "q"}, []int64{first}},
		"kind":         {store.DeadFilter{Kind: "other"}, nil},
		"tenant":       {store.DeadFilter{Tenant: "acme"}, []int64{second}},
		"key":          {store.DeadFilter{OrderingKey: "a"}, []int64{first}},
		"error":        {store.DeadFilter{Error: "timeout%"}, []int64{third, first}},
		"whole error":  {store.DeadFilter{Error: "timeout"}, nil},
		"escaped":      {store.DeadFilter{Error: `100\% of 5\_0`}, []int64{second}},
		"from":         {store.DeadFilter{DiedFrom: died}, []int64{third, second}},
		"before":       {store.DeadFilter{DiedBefore: died}, []int64{first}},
		"error, queue": {store.DeadFilter{Error: "timeout%", Queue: "q"}, []int64{first}},
	} {
		if got := r.listed(test.filter, store.DeadPage{}); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: listed %v, want %v", name, got, test.want)
		}
	}
	for _, filter := range []store.DeadFilter{{}, {DiedBefore: time.Now().Add(time.Hour)}} {
		var paged []int64
		page := store.DeadPage{Limit: 2}
		for {
			letters, err := r.ListDead(t.Context(), filter, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, letter := range letters {
				paged = append(paged, letter.ID)
				page.After = &letter
			}
			if len(letters) < page.Limit {
				break
			}
		}
		if want := []int64{third, second, first}; fmt.Sprint(paged) != fmt.Sprint(want) {
			t.Errorf("page by page: %v, want %v", paged, want)
		}
	}
}

func (r *rig) showDead(id int64) store.DeadJob {
	r.t.Helper()
	letter, err := r.ShowDead(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return letter
}

func TestShowDead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.kill(store.NewJob{Payload: map[string]int{"n": 1}, Headers: map[string]string{"h": "x"}}, "first")
	if _, err := r.Replay(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ShowDead(t.Context(), id); !errors.Is(err, store.ErrState) {
		t.Errorf("of a job that is not dead: %v", err)
	}
	if state := r.report(r.take(), store.Failed); state != store.FinishDone {
		t.Fatal(state)
	}
	r.db.Exec(t, "update lockstep.job set run_at = clock_timestamp() where stage = 'b'; select lockstep.due()")
	r.die()
	letter := r.showDead(id)
	got := fmt.Sprintf("%s %s", letter.Payload, letter.Headers)
	for _, attempt := range letter.Attempts {
		got += fmt.Sprintf("; %d %s %q", attempt.Attempt, attempt.Outcome, attempt.Error)
	}
	if want := `{"n": 1} {"h": "x"}; 1 dead "first"; 1 failed ""; 2 dead ""`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := r.ShowDead(t.Context(), 999); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of no job: %v", err)
	}
}

// Names and patterns are data, and bad ones are refused by name.
func TestDeadFiltersAreData(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, text := range odd {
		id := r.kill(store.NewJob{Queue: text, Tenant: text, OrderingKey: text}, text)
		exact := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text)
		filter := store.DeadFilter{Queue: text, Tenant: text, OrderingKey: text, Error: exact, Kind: "k"}
		if got := r.listed(filter, store.DeadPage{}); len(got) != 1 || got[0] != id {
			t.Errorf("%q: listed %v, want %d", text, got, id)
		}
		if _, err := r.StartReplay(t.Context(), store.NewReplay{Filter: filter, StartedBy: text, Rate: 1000}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if moved, err := r.Due(t.Context(), 1); err != nil || moved.Replayed != 1 {
			t.Errorf("%q: replayed %d, %v", text, moved.Replayed, err)
		}
		if lane := (store.Lane{Queue: text, Tenant: text, OrderingKey: text}); errOf(r.SkipHead(t.Context(), lane)) != nil {
			t.Errorf("%q: can't be skipped", text)
		}
	}
	for field, err := range map[string]error{
		"error":      errOf(r.ListDead(t.Context(), store.DeadFilter{Error: `a\`}, store.DeadPage{})),
		"max":        errOf(r.ListDead(t.Context(), store.DeadFilter{}, store.DeadPage{Limit: 1001})),
		"queue":      errOf(r.ListDead(t.Context(), store.DeadFilter{Queue: "a\x00"}, store.DeadPage{})),
		"rate":       errOf(r.StartReplay(t.Context(), store.NewReplay{Rate: -1})),
		"ids":        errOf(r.StartReplay(t.Context(), store.NewReplay{IDs: make([]int64, 1001)})),
		"started_by": errOf(r.StartReplay(t.Context(), store.NewReplay{StartedBy: strings.Repeat("x", 201)})),
	} {
		var refused *store.FieldError
		if !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("a bad %s: %v", field, err)
		}
	}
}

// A pattern made to take long takes no longer than its length allows.
func TestHostileErrorPattern(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kill(store.NewJob{}, strings.Repeat("a", 64<<10))
	r.db.Exec(t, "alter database "+r.db.Name+" set statement_timeout = '10s'")
	db := store.New(r.db.Conn(t))
	for _, pattern := range []string{strings.Repeat("%a", 250), strings.Repeat("%a", 249) + "b", strings.Repeat("_%", 250)} {
		if _, err := db.ListDead(t.Context(), store.DeadFilter{Error: pattern}, store.DeadPage{}); err != nil {
			t.Errorf("%.20s…: %v", pattern, err)
		}
	}
	if _, err := db.ListDead(t.Context(), store.DeadFilter{Error: strings.Repeat("%", 501)}, store.DeadPage{}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a pattern that is too long: %v", err)
	}
}

func TestPurgeDead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.SetQueue(t.Context(), "blocks", store.QueuePolicy{OnDead: store.OnDeadBlock}); err != nil {
		t.Fatal(err)
	}
	blocking := r.kill(store.NewJob{Queue: "blocks", OrderingKey: "a"}, "")
	old, other, fresh := r.kill(store.NewJob{}, ""), r.kill(store.NewJob{Queue: "q"}, ""), r.kill(store.NewJob{}, "")
	r.db.Exec(t, "update lockstep.dead_job set died_at = died_at - interval '2 days' where id <> $1", fresh)
	day := 24 * time.Hour
	if n, more, err := r.PurgeDead(t.Context(), store.Purge{OlderThan: day, Queue: "default", Limit: 1}); n != 1 || !more || err != nil {
		t.Error(n, more, err)
	}
	if got := r.listed(store.DeadFilter{}, store.DeadPage{}); len(got) != 3 {
		t.Errorf("left are %v, without %d", got, old)
	}
	for _, retention := range []time.Duration{day, 0} {
		if _, err := r.SetQueue(t.Context(), "blocks", store.QueuePolicy{DeadRetention: &retention}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.SetQueue(t.Context(), "q", store.QueuePolicy{DeadRetention: &day}); err != nil {
		t.Fatal(err)
	}
	if kept, err := r.Upkeep(t.Context()); err != nil || kept.DeadPurged != 1 {
		t.Errorf("upkeep: %+v, %v", kept, err)
	}
	if n, more, err := r.PurgeDead(t.Context(), store.Purge{}); n != 1 || more || err != nil {
		t.Error(n, more, err)
	}
	if got := r.listed(store.DeadFilter{}, store.DeadPage{}); len(got) != 1 || got[0] != blocking {
		t.Errorf("left are %v, want only %d, which blocks its lane (%d was to go by upkeep)", got, blocking, other)
	}
	short := time.Second
	for field, err := range map[string]error{
		"older_than":     func() error { _, _, err := r.PurgeDead(t.Context(), store.Purge{OlderThan: -1e9}); return err }(),
		"dead_retention": errOf(r.SetQueue(t.Context(), "q", store.QueuePolicy{DeadRetention: &short})),
	} {
		var refused *store.FieldError
		if !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("a bad %s: %v", field, err)
		}
	}
}

func TestReplays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := r.kill(store.NewJob{}, "x"), r.kill(store.NewJob{}, "y")
	run, err := r.StartReplay(t.Context(), store.NewReplay{Rate: 0.1, IDs: []int64{first, second}, StartedBy: "me"})
	if err != nil {
		t.Fatal(err)
	}
	moved, err := r.Due(t.Context(), 1)
	if wait := moved.DueAt.Sub(moved.LookedAt); err != nil || moved.Replayed != 1 || wait < 9*time.Second || wait > 11*time.Second {
		t.Errorf("%+v, %v: want one replayed, and the next in ten seconds", moved, err)
	}
	r.expectState(first, store.StateReady)
	r.expectReplay(run, "running 0.1 by me: 1 replayed, 0 kept, 1 left")
	// Another one, who did not make the step, comes a little later.
	if moved, err = r.Due(t.Context(), 1); err != nil || moved.Replayed != 0 || moved.DueAt.Sub(moved.LookedAt) < 5*time.Second {
		t.Errorf("too soon: %+v, %v", moved, err)
	}
	if ended, err := r.CancelReplay(t.Context(), run); !ended || err != nil {
		t.Error(ended, err)
	}
	if ended, err := r.CancelReplay(t.Context(), run); ended || err != nil {
		t.Error(ended, err)
	}
	r.expectReplay(run, "cancelled 0.1 by me: 1 replayed, 0 kept, 0 left")
	if _, err := r.CancelReplay(t.Context(), 999); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("cancelling no replay: %v", err)
	}
	if moved, err = r.Due(t.Context(), 1); err != nil || !moved.DueAt.IsZero() {
		t.Errorf("with nothing to do: %+v, %v", moved, err)
	}
	r.db.Exec(t, "select lockstep.set_limits(retention => '0')")
	if _, err := r.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, err := r.Replays(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("past retention: %v, %v", all, err)
	}
}

func (r *rig) expectReplay(id int64, want string) {
	r.t.Helper()
	all, err := r.Replays(r.t.Context())
	if err != nil || len(all) == 0 || all[0].ID != id {
		r.t.Fatal(all, err)
	}
	run := all[0]
	got := fmt.Sprintf("%s %v by %s: %d replayed, %d kept, %d left", run.State, run.Rate, run.StartedBy, run.Replayed, run.Kept, run.Remaining)
	if got != want {
		r.t.Errorf("the replay: %s, want %s", got, want)
	}
}

// TestSlowestReplay: at any rate a replay goes on, and what falls due meanwhile does.
func TestSlowestReplay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 2 {
		r.kill(store.NewJob{Kind: "k"}, "why")
	}
	for range 2 {
		if _, err := r.StartReplay(t.Context(), store.NewReplay{Rate: math.SmallestNonzeroFloat64}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := r.Due(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := r.Replays(t.Context())
	if err != nil || len(runs) != 2 || runs[0].Replayed+runs[1].Replayed != 2 {
		t.Errorf("%+v, %v", runs, err)
	}
}

// A head whose row, or whose letter, is locked for a moment is not one in
// another state.
func TestBlockedLaneIsBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.SetQueue(t.Context(), "default", store.QueuePolicy{OnDead: store.OnDeadBlock}); err != nil {
		t.Fatal(err)
	}
	id := r.kill(store.NewJob{OrderingKey: "a"}, "broken")
	r.put("a", 1)
	lanes, err := r.ListBlocked(t.Context(), "default", 0, 10)
	if err != nil || len(lanes) != 1 || lanes[0].Head != id || lanes[0].Waiting != 1 || lanes[0].Error != "broken" {
		t.Errorf("blocked lanes: %+v, %v", lanes, err)
	}
	if lanes, err = r.ListBlocked(t.Context(), "", id, 10); err != nil || len(lanes) != 0 {
		t.Errorf("the next page: %+v, %v", lanes, err)
	}
	lane := store.Lane{OrderingKey: "a"}
	for _, table := range []string{"job", "dead_job"} {
		conn := r.db.Conn(t)
		if _, err := conn.Exec(t.Context(), fmt.Sprintf("begin; select from lockstep.%s where id = %d for update", table, id)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.UnblockLane(t.Context(), lane); !errors.Is(err, store.ErrBusy) {
			t.Errorf("unblock beside a locked %s: %v", table, err)
		}
		if _, err := r.SkipHead(t.Context(), lane); !errors.Is(err, store.ErrBusy) {
			t.Errorf("skip beside a locked %s: %v", table, err)
		}
		if _, err := conn.Exec(t.Context(), "rollback"); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := r.UnblockLane(t.Context(), lane); !now || err != nil {
		t.Error(now, err)
	}
	if n := testdb.Value[int](t, r.db, "select count(*) from lockstep.job where stage = 'r'"); n != 1 {
		t.Errorf("%d jobs are ready, want the one behind", n)
	}
}
