package dispatcher_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// TestC7_InstallsWakeTheirOwn: of two installs in one database each is woken by
// its own jobs alone, and it can be told which of them lost a trigger.
func TestC7_InstallsWakeTheirOwn(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	rigs, ds := map[string]*rig{}, map[string]*dispatcher.Dispatcher{}
	for _, schema := range []string{"q1", "q2"} {
		db.Migrate(t, migrations.Config{Schema: schema})
		r := &rig{TB: t, db: db, pool: db.Pool(t), more: make(chan struct{})}
		d := r.dispatcher(dispatcher.Config{Schema: schema})
		dispatcher.Handle(d, "k", nop)
		r.start(d)
		r.listening()
		rigs[schema], ds[schema] = r, d
	}
	foundBy := func(schema string, why dispatcher.Reason) uint64 {
		return ds[schema].Stats().Queues["default"].Looks[why].Jobs
	}
	db.Exec(t, "insert into q2.job (kind) values ('k')") // which the look after LISTEN may still find
	rigs["q2"].awaitRecorded(1)
	before := foundBy("q2", dispatcher.BySignal)
	for i := range 5 {
		db.Exec(t, "insert into q2.job (kind, ordering_key) values ('k', 'a')")
		rigs["q2"].awaitRecorded(i + 2)
	}
	if n := foundBy("q2", dispatcher.BySignal) - before; n != 5 {
		t.Errorf("%d of 5 jobs were found by their signal", n)
	}
	if n := ds["q1"].Stats().Listener.Signals; n != 0 {
		t.Errorf("the other install heard %d signals", n)
	}
	db.Exec(t, "alter table q2.job disable trigger job_signal")
	for schema, want := range map[string]bool{"q1": false, "q2": true} {
		state, err := migrations.Status(t.Context(), db.Conn(t), migrations.Config{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, problem := range state.Problems {
			found = found || errors.Is(problem, migrations.ErrTrigger) && strings.Contains(problem.Error(), "job_signal is disabled")
		}
		if found != want {
			t.Errorf("%s: problems %v", schema, state.Problems)
		}
	}
}

// TestC8_TriggersDropped: a dump restored without triggers costs promptness:
// jobs run by the poll. One warning and a counter say that nothing wakes.
func TestC8_TriggersDropped(t *testing.T) {
	t.Parallel()
	for name, triggers := range map[string][]string{
		"the one that signals": {"job_signal"},
		"all":                  {"job_enter", "job_place", "job_signal", "job_size"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var log syncBuffer
			d := r.dispatcher(dispatcher.Config{Poll: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			dispatcher.Handle(d, "k", nop)
			r.start(d)
			r.listening()
			idlePoll := func(e dispatcher.Event) bool {
				return e.Type == dispatcher.Looked && e.Wake == dispatcher.ByPoll && e.Jobs == 0
			}
			for _, trigger := range triggers {
				r.db.Exec(t, "drop trigger "+trigger+" on lockstep.job")
			}
			const jobs = 3
			began := time.Now()
			for i := range jobs {
				// A look that still met the last job comes again at once, and not by the poll.
				r.await("a poll that finds nothing", r.count(idlePoll)+1, idlePoll)
				r.db.Exec(t, "insert into lockstep.job (kind) values ('k')")
				r.awaitRecorded(i + 1)
			}
			r.lost(d, jobs)
			// The next one may come ten seconds later.
			warnings := strings.Count(log.String(), fmt.Sprintf("level=WARN msg=%q", dispatcher.Wakeless))
			if most := 1 + int(time.Since(began)/(10*time.Second)); warnings < 1 || warnings > most {
				t.Errorf("%d warnings, want 1 to %d:\n%s", warnings, most, log.String())
			}
		})
	}
}

// lost waits until so many lost signals are counted.
func (r *rig) lost(d *dispatcher.Dispatcher, want uint64) {
	r.Helper()
	for deadline := time.Now().Add(patience); d.Stats().Queues["default"].LostSignals < want; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatalf("%d of %d lost signals are counted", d.Stats().Queues["default"].LostSignals, want)
		}
	}
	if n := d.Stats().Queues["default"].LostSignals; n > want {
		r.Errorf("%d lost signals are counted, want %d", n, want)
	}
}
