package puppet

import (
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

// Scene is a database with a journal.
type Scene struct{ *testdb.DB }

// NewScene gives a test a migrated database of its own.
func NewScene(t testing.TB) *Scene {
	t.Helper()
	return SceneIn(t, testdb.New(t))
}

// SceneIn puts a journal into a migrated database.
func SceneIn(t testing.TB, db *testdb.DB) *Scene {
	t.Helper()
	db.Exec(t, tables)
	return &Scene{db}
}

// Start starts a worker process and returns when it listens.
func (s *Scene) Start(t testing.TB, c Config) *workerproc.Process {
	t.Helper()
	p := s.Launch(t, c)
	p.Await(t, ready)
	return p
}

// Launch starts a worker process, which may not live long enough to listen.
func (s *Scene) Launch(t testing.TB, c Config) *workerproc.Process {
	t.Helper()
	c.URL = s.URL
	return workerproc.Start(t, role, c.args()...)
}

// Job is a job to enqueue.
type Job struct {
	Kind        string
	OrderingKey string
	Delay       time.Duration // until it falls due
	MaxAttempts int           // zero: 12
	Script      Script
}

// Enqueue inserts a job as psql would: a plain INSERT, in a transaction of its
// own. It returns the job's id.
func (s *Scene) Enqueue(t testing.TB, job Job) int64 {
	t.Helper()
	if job.MaxAttempts == 0 {
		job.MaxAttempts = 12
	}
	if job.Script == nil {
		job.Script = Script{}
	}
	return testdb.Value[int64](t, s.DB, `
		insert into lockstep.job (kind, ordering_key, run_at, max_attempts, payload)
		values ($1, nullif($2, ''), clock_timestamp() + $3::interval, $4, $5) returning id`,
		job.Kind, job.OrderingKey, job.Delay, job.MaxAttempts, job.Script)
}

// look is how often Await asks.
const look = 10 * time.Millisecond

// Await returns once a condition, an SQL expression, is true. After 30 s it
// fails the test.
func (s *Scene) Await(t testing.TB, condition string, args ...any) {
	t.Helper()
	s.AwaitFor(t, 30*time.Second, condition, args...)
}

// AwaitFor is Await with another limit.
func (s *Scene) AwaitFor(t testing.TB, limit time.Duration, condition string, args ...any) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for !testdb.Value[bool](t, s.DB, "select "+condition, args...) {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not true within %v: %s %v\n%s", limit, condition, args, s.Journal(t))
		}
	}
}

// AwaitStart returns once a worker's handlers have noted that they started jobs.
func (s *Scene) AwaitStart(t testing.TB, worker string, jobs ...int64) {
	t.Helper()
	s.Await(t, `(select count(distinct job) from journal where what = 'start' and worker = $1 and job = any ($2)) = $3`,
		worker, jobs, len(jobs))
}

// AwaitCompleted returns once jobs are completed and have left their lanes.
func (s *Scene) AwaitCompleted(t testing.TB, jobs ...int64) {
	t.Helper()
	s.Await(t, `(select count(distinct id) from lockstep.finished_job where outcome = 'completed' and id = any ($1)) = $2`, jobs, len(jobs))
}

// Journal is the end of what workers noted, for the message of a failed test.
func (s *Scene) Journal(t testing.TB) string {
	t.Helper()
	return s.journal(t, "true")
}

// JournalOf is what workers noted between two moments.
func (s *Scene) JournalOf(t testing.TB, from, to time.Time) string {
	t.Helper()
	return s.journal(t, "at between $1 and $2", from, to)
}

func (s *Scene) journal(t testing.TB, condition string, args ...any) string {
	t.Helper()
	return testdb.Value[string](t, s.DB, `
		select coalesce(string_agg(line, e'\n' order by seq), 'nothing in the journal') from (
			select seq, format('%s %s: %s job %s fence %s attempt %s %s', to_char(at, 'HH24:MI:SS.MS'), worker, what, job, fence, attempt, detail) as line
			  from journal where `+condition+` order by seq desc limit 60) l`, args...)
}
