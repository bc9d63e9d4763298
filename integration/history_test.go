package integration

import (
	"hash/fnv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

const historyKills = 30

// TestHistoryReplay works a real history with processes that are killed
// between effect and finish. Replayed in order per path, each change meets the
// content before it, and the tree at the end is that of the history: one
// reordering, loss or repetition shows.
func TestHistoryReplay(t *testing.T) {
	for _, mode := range []string{"tx", "fenced"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			replayHistory(t, mode)
		})
	}
}

func replayHistory(t *testing.T, mode string) {
	prefix := historyPrefix()
	events := readHistory(t, prefix)
	db := testdb.New(t)
	db.Exec(t, historyTables)
	db.Exec(t, `select lockstep.set_queue('default', backoff_base => '50 ms')`) // for jobs lost twice
	source := startProducers(t, db.URL, events)
	workerproc.Start(t, "history", db.URL, mode).Await(t, "ready")

	var victims [2]*workerproc.Process
	for i := range victims {
		victims[i] = workerproc.Start(t, "history", db.URL, mode)
	}
	for kill := range historyKills {
		victim := &victims[kill%len(victims)]
		(*victim).Await(t, "ready")
		killBetweenEffectAndFinish(t, db, *victim, source)
		*victim = workerproc.Start(t, "history", db.URL, mode)
	}
	source.finish(t)
	awaitDrained(t, db)
	checkHistory(t, db, events, readTree(t, prefix))
	t.Logf("%s: %d changes of %s, %d workers killed between effect and finish; attempts lost with them: %d", mode, len(events), prefix,
		historyKills, testdb.Value[int](t, db, `select count(*) from lockstep.attempts where outcome = 'lost'`))
}

// killBetweenEffectAndFinish asks a worker to stop behind the next effect, lets
// out work until it has, and kills it there.
func killBetweenEffectAndFinish(t *testing.T, db *testdb.DB, victim *workerproc.Process, source *source) {
	t.Helper()
	held := victim.Printed("held")
	victim.Signal(t, syscall.SIGUSR1)
	source.release(t)
	for {
		select {
		case ok := <-held:
			if !ok {
				t.Fatal("a worker ended by itself")
			}
			victim.Kill(t)
			return
		case <-time.After(100 * time.Millisecond):
			if testdb.Value[int](t, db, `select count(*) from lockstep.job`) == 0 {
				source.release(t) // others took the work
			}
		}
	}
}

// awaitDrained waits until no job is left.
func awaitDrained(t *testing.T, db *testdb.DB) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		left := testdb.Value[int](t, db, `select count(*) from lockstep.job`)
		switch {
		case left == 0:
			return
		case time.Now().After(deadline):
			t.Fatalf("%d jobs are left", left)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func checkHistory(t *testing.T, db *testdb.DB, events []event, want map[string]string) {
	t.Helper()
	rows, err := db.Conn(t).Query(t.Context(), `select path, blob from tree`)
	if err != nil {
		t.Fatal(err)
	}
	tree := map[string]string{}
	var path, blob string
	if _, err := pgx.ForEachRow(rows, []any{&path, &blob}, func() error { tree[path] = blob; return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, tree); diff != "" {
		t.Errorf("the final tree differs (-want +got):\n%s", diff)
	}
	for what, query := range map[string]string{
		"mismatches of prev": `select count(*) from mismatch`,
		"effects repeated":   `select count(*) - count(distinct seq) from effect`,
		"fences that did not grow along a path": `
			select count(*) from (
				select e.fence <= lag(e.fence) over (partition by f.ordering_key order by e.seq) as bad
				from effect e join lockstep.finished_job f on (f.payload ->> 'seq')::bigint = e.seq) x
			where bad`,
	} {
		if n := testdb.Value[int](t, db, query); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	for what, query := range map[string]string{
		"effects":        `select count(distinct seq) from effect`,
		"completed jobs": `select count(*) from lockstep.finished_job where outcome = 'completed'`,
	} {
		if n := testdb.Value[int](t, db, query); n != len(events) {
			t.Errorf("%s: %d of %d", what, n, len(events))
		}
	}
}

// eventsOf are the events of one of n producers: each path stays with one.
func eventsOf(events []event, producer, n int) []event {
	var mine []event
	for _, e := range events {
		h := fnv.New32a()
		_, _ = h.Write([]byte(e.OrderingKey))
		if int(h.Sum32())%n == producer {
			mine = append(mine, e)
		}
	}
	return mine
}
