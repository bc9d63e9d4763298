package kill

import (
	"os"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/puppet"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

func TestMain(m *testing.M) {
	puppet.Register()
	os.Exit(workerproc.Main(m))
}

// expect compares one value from the database.
func expect[T comparable](t *testing.T, s *puppet.Scene, want T, what, sql string, args ...any) {
	t.Helper()
	if got := testdb.Value[T](t, s.DB, "select "+sql, args...); got != want {
		t.Errorf("%s: %v, want %v\n%s", what, got, want, s.Journal(t))
	}
}

// expectNoOverlap checks that no lane had two live attempts on record at once:
// each attempt, lost or good, ended before the next was claimed.
func expectNoOverlap(t *testing.T, s *puppet.Scene) {
	t.Helper()
	expect(t, s, 0, "attempts that overlap", `count(*) from (
		select ended_at, lead(claimed_at) over (partition by ordering_key order by fence) as next
		  from (select f.ordering_key, f.fence, f.claimed_at, f.finished_at as ended_at from lockstep.finished_job f
		        union all
		        select f.ordering_key, a.fence, a.claimed_at, a.ended_at
		          from lockstep.attempt a join lockstep.finished_job f on f.id = a.job_id) attempts
		 where ordering_key is not null) o where next < ended_at`)
}
