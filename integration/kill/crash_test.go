package kill

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/integration/puppet"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// TestC23ServerCrash kills the server under twenty running jobs, each with
// another waiting behind it, and starts it again before their leases end.
func TestC23ServerCrash(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	server, err := postgres.Start(t.Context(), postgres.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	db := &testdb.DB{Name: "postgres", URL: server.URL("postgres")}
	db.Migrate(t, migrations.Config{})
	s := puppet.SceneIn(t, db)
	for _, name := range []string{"x", "y"} {
		s.Start(t, puppet.Config{Name: name, Kinds: []string{"plain", "next"}, TxKinds: []string{"tx"}, Concurrency: 20, Lease: lease})
	}
	jobs := make([]int64, 0, 20)
	script := puppet.Script{"": puppet.Work(1500 * time.Millisecond)}
	for i := range cap(jobs) / 2 {
		jobs = append(jobs,
			s.Enqueue(t, puppet.Job{Kind: "plain", OrderingKey: fmt.Sprint("plain ", i), Script: script}),
			s.Enqueue(t, puppet.Job{Kind: "tx", OrderingKey: fmt.Sprint("tx ", i), Script: script}))
	}
	s.Await(t, "(select count(distinct job) from journal where what = 'start') = $1", len(jobs))
	behind := make([]int64, 0, len(jobs))
	for i := range len(jobs) / 2 {
		behind = append(behind,
			s.Enqueue(t, puppet.Job{Kind: "next", OrderingKey: fmt.Sprint("plain ", i)}),
			s.Enqueue(t, puppet.Job{Kind: "next", OrderingKey: fmt.Sprint("tx ", i)}))
	}

	server.Crash()
	if err := server.StartAgain(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = &puppet.Scene{DB: &testdb.DB{Name: db.Name, URL: db.URL}} // the old one's connection is gone
	restarted := testdb.Value[time.Time](t, s.DB, "select clock_timestamp()")
	s.AwaitCompleted(t, append(jobs, behind...)...)

	standstill := testdb.Value[time.Time](t, s.DB, "select max(at) from journal where what = 'start' and job = any ($1)", behind).Sub(restarted)
	t.Logf("after the restart the last of %d lanes went on after %v, with leases of %v", len(jobs), standstill, lease)
	if standstill > lease+5*time.Second {
		t.Errorf("a lane stood still for %v, more than its lease of %v and 5 s\n%s", standstill, lease, s.Journal(t))
	}
	expect(t, s, 0, "jobs left", "count(*) from lockstep.job")
	expect(t, s, len(behind), "starts of the jobs behind them", "count(*) from journal where what = 'start' and job = any ($1)", behind)
	expect(t, s, len(jobs), "jobs on record as completed, each once", "count(*) from lockstep.finished_job where kind <> 'next'")
	// A transactional handler may be repeated within its attempt: what it did is undone.
	expect(t, s, 0, "claims of plain jobs that ran more than once", `count(*) from (
		select from journal j join lockstep.finished_job f on f.id = j.job
		 where j.what = 'start' and f.kind = 'plain' group by j.job, j.fence having count(*) > 1) twice`)
	expect(t, s, len(jobs), "jobs completed by a handler that says so",
		"count(distinct f.id) from lockstep.finished_job f join journal j on j.job = f.id and j.fence = f.fence where f.kind <> 'next' and j.what = 'end' and j.detail = ''")
	expect(t, s, len(jobs)/2, "plain jobs that recorded the attempt that the crash met",
		"count(*) from lockstep.finished_job where kind = 'plain' and attempt = 1")
	expect(t, s, len(jobs)/2, "effects", "count(*) from effect")
	expect(t, s, len(jobs)/2, "effects of the attempts that completed",
		"count(*) from effect e join lockstep.finished_job f on f.id = e.job and f.fence = e.fence")
	t.Log("attempts that transactional jobs needed: " + testdb.Value[string](t, s.DB, `
		select string_agg(format('%s × %s', n, attempt), ', ' order by attempt)
		  from (select attempt, count(*) as n from lockstep.finished_job where kind = 'tx' group by 1) a`))
}
