package kill

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/puppet"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// TestKilledWorkersJobsRunAgain kills a worker just after a heartbeat, which is
// when its leases last longest.
func TestKilledWorkersJobsRunAgain(t *testing.T) {
	t.Parallel()
	const lanes, lease = 20, 5 * time.Second
	s := puppet.NewScene(t)
	x := s.Start(t, puppet.Config{Name: "x", Kinds: []string{"k"}, Concurrency: lanes, Lease: lease})
	heads := make([]int64, lanes)
	want := map[string][]int64{}
	for i := range heads {
		key := fmt.Sprint("lane ", i)
		heads[i] = s.Enqueue(t, puppet.Job{Kind: "k", OrderingKey: key, Script: puppet.Script{"x": puppet.Hold()}})
		second, third := puppet.Job{Kind: "k", OrderingKey: key}, puppet.Job{Kind: "k", OrderingKey: key}
		want[key] = []int64{heads[i], heads[i], s.Enqueue(t, second), s.Enqueue(t, third)}
	}
	s.AwaitStart(t, "x", heads...)
	s.Start(t, puppet.Config{Name: "y", Kinds: []string{"k"}, Concurrency: lanes, Lease: lease})

	beat := testdb.Value[time.Time](t, s.DB, "select max(lease_until) from lockstep.job where id = any ($1)", heads)
	s.Await(t, "(select min(lease_until) > $2 from lockstep.job where id = any ($1))", heads, beat)
	killed := testdb.Value[time.Time](t, s.DB, "select clock_timestamp()")
	x.Kill(t)
	s.AwaitStart(t, "y", heads...)
	last := testdb.Value[time.Time](t, s.DB, "select max(at) from journal where worker = 'y' and what = 'start' and job = any ($1)", heads)
	t.Logf("the last of %d jobs ran again %v after the kill", lanes, last.Sub(killed))
	if late := last.Sub(killed); late > lease+time.Second {
		t.Errorf("a job ran again %v after the kill, more than its lease of %v and a second\n%s", late, lease, s.Journal(t))
	}

	s.Await(t, "not exists (select from lockstep.job)")
	for key, got := range starts(t, s) {
		if !slices.Equal(got, want[key]) {
			t.Errorf("%s: jobs started in the order %v, want %v", key, got, want[key])
		}
	}
	expectNoOverlap(t, s)
}

// starts are the jobs of each lane in the order of their starts, as handlers
// noted them.
func starts(t *testing.T, s *puppet.Scene) map[string][]int64 {
	t.Helper()
	rows, err := s.Conn(t).Query(t.Context(), `
		select f.ordering_key, array_agg(j.job order by j.seq) from journal j join lockstep.finished_job f on f.id = j.job
		 where j.what = 'start' group by 1`)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]int64{}
	var key string
	var jobs []int64
	if _, err := pgx.ForEachRow(rows, []any{&key, &jobs}, func() error {
		all[key] = slices.Clone(jobs)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}
