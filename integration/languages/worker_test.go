package languages

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
	"github.com/lockstep-pg/lockstep/store"
)

func TestMain(m *testing.M) { os.Exit(workerproc.Main(m)) }

const examples = "../../docs/examples/"

// until waits for something to come true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func left(t *testing.T, db *testdb.DB) int {
	t.Helper()
	return testdb.Value[int](t, db, "select count(*) from lockstep.job")
}

// expectOrder sees that each key's jobs were done once, and in order.
func expectOrder(t *testing.T, db *testdb.DB, jobs int) {
	t.Helper()
	for what, query := range map[string]string{
		"jobs done out of order": `count(*) from (
			select payload::int < lag(payload::int) over (partition by ordering_key order by at) as bad from work_done where ordering_key <> '') d where bad`,
		"jobs done twice": "count(*) - count(distinct job_id) from work_done",
	} {
		if n := testdb.Value[int](t, db, "select "+query); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	if n := testdb.Value[int](t, db, "select count(distinct job_id) from work_done"); n != jobs {
		t.Errorf("%d jobs done, want %d", n, jobs)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.jobs where state = 'completed'"); n != jobs {
		t.Errorf("%d jobs completed, want %d", n, jobs)
	}
}

const workDone = "create table work_done (job_id bigint, ordering_key text, payload jsonb, at bigint generated always as identity)"

// psql is psql on a database, told what to do by input.
func psql(db *testdb.DB, input io.Reader, args ...string) *exec.Cmd {
	cmd := exec.Command("psql", append(append([]string{"-X", "-q", "-v", "ON_ERROR_STOP=1"}, args...), db.URL)...)
	cmd.Dir = examples
	cmd.Stdin = input
	return cmd
}

// again is a line without end, as yes prints it.
type again string

func (a again) Read(p []byte) (n int, err error) {
	for n+len(a) <= len(p) {
		n += copy(p[n:], a)
	}
	return n, nil
}

// TestPsqlWorkers: a thousand jobs from psql alone, worked by two psqls.
func TestPsqlWorkers(t *testing.T) {
	t.Parallel()
	const jobs = 1000
	db := testdb.New(t)
	db.Exec(t, workDone)
	enqueue := fmt.Sprintf(`select count(lockstep.enqueue('k', to_jsonb(i), ordering_key => case when i %% 4 > 0 then (i %% 10)::text end)) from generate_series(1, %d) i;`, jobs)
	if output, err := psql(db, strings.NewReader(enqueue)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for range 2 {
		workerproc.StartCommand(t, "psql", psql(db, again("\\i worker.sql\n"), "-v", "worker="+store.NewWorkerID().String()))
	}
	until(t, "all jobs have ended", func() bool { return left(t, db) == 0 })
	expectOrder(t, db, jobs)
	if n := testdb.Value[int](t, db, "select count(distinct worker) from lockstep.jobs"); n != 2 {
		t.Errorf("%d workers had a share", n)
	}
}

// TestNodeWorkers: keyed jobs in order, through the kill of a worker, a failure
// and a cancel.
func TestNodeWorkers(t *testing.T) {
	t.Parallel()
	const jobs = 300
	db := testdb.New(t)
	db.Exec(t, workDone)
	db.Exec(t, "select lockstep.set_queue('default', backoff_base => '50 ms')")
	modules, err := exec.Command("./install.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	handlers := filepath.Join(t.TempDir(), "handlers.js")
	if err := os.WriteFile(handlers, []byte(`
const { Pool } = require("pg");
const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 1 });
let failed = false;
exports.k = async (job) => {
  if (job.payload === 7 && job.attempt === 1) throw new Error("seven");
  await pool.query("insert into work_done (job_id, ordering_key, payload) values ($1, $2, $3) on conflict do nothing", [job.id, job.ordering_key, JSON.stringify(job.payload)]);
  return { n: job.payload };
};
exports.endless = (job, signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
`), 0o600); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "create unique index on work_done (job_id)") // effects by job, as a handler's should be
	start := func() *workerproc.Process {
		cmd := exec.Command("node", examples+"worker.js", handlers)
		cmd.Env = append(os.Environ(), "DATABASE_URL="+db.URL, "NODE_PATH="+strings.TrimSpace(string(modules)))
		return workerproc.StartCommand(t, "node", cmd)
	}
	victim := start()
	start()
	db.Exec(t, "select lockstep.enqueue('k', to_jsonb(i), ordering_key => (i % 10)::text) from generate_series(1, $1) i", jobs)
	until(t, "a third of the jobs have ended", func() bool { return left(t, db) < jobs*2/3 })
	victim.Kill(t)
	last := start()
	until(t, "all jobs have ended", func() bool { return left(t, db) == 0 })
	expectOrder(t, db, jobs)
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.attempts where outcome = 'failed' and error like 'Error: seven%'"); n != 1 {
		t.Errorf("%d failures on record", n)
	}

	id := testdb.Value[int64](t, db, "select id from lockstep.enqueue('endless')")
	until(t, "it runs", func() bool {
		return testdb.Value[string](t, db, "select state from lockstep.job_status($1)", id) == "running"
	})
	until(t, "the cancel is taken", func() bool { // busy while a heartbeat has the row
		return testdb.Value[string](t, db, "select lockstep.cancel($1)", id) != "busy"
	})
	until(t, "it is cancelled", func() bool {
		return testdb.Value[string](t, db, "select state from lockstep.job_status($1)", id) == "cancelled"
	})
	last.Signal(t, syscall.SIGTERM)
	if code := last.Wait(t); code != 0 {
		t.Errorf("asked to end, it ended with %d", code)
	}
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.attempts where outcome = 'lost'"); n > 1 {
		t.Errorf("%d attempts were lost with one kill", n)
	}
}
