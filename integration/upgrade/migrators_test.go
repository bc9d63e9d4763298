package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
	"github.com/lockstep-pg/lockstep/migrations"
)

func registerRoles() {
	workerproc.Register("migrator", migrator)
}

// migrator migrates the database args[0], once a line on standard input says so,
// and tells how many files it applied.
func migrator(ctx context.Context, args []string) error {
	conn, err := pgx.Connect(ctx, args[0])
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	result, err := migrations.Up(ctx, conn, migrations.Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	what := "found it done"
	if len(result.Applied) > 0 {
		what = "applied"
	}
	fmt.Println(what)
	return nil
}

// TestC105 has ten processes migrate one database, over and over: an empty one
// and one of the earlier version by turns. In every other round one of them is
// killed. One applies, the others wait and go on, and nothing is left half done.
func TestC105(t *testing.T) {
	t.Parallel()
	const rounds, migrators = 50, 10
	killed := 0
	for round := range rounds {
		if !t.Run(fmt.Sprint(round), func(t *testing.T) {
			db := testdb.NewEmpty(t)
			if round%4 >= 2 {
				db.Migrate(t, migrations.Config{Files: coreFiles(t)})
			}
			if migrateByMany(t, db, migrators, round%2 == 1) {
				killed++
			}
			checkVersions(t, db)
		}) {
			return
		}
	}
	if killed == 0 {
		t.Error("no process was caught migrating in any round, so none was killed")
	}
	t.Logf("%d were killed while they migrated", killed)
}

// migrateByMany has processes migrate a database at once; one may be killed,
// and was if killed is true.
func migrateByMany(t *testing.T, db *testdb.DB, n int, kill bool) (killed bool) {
	t.Helper()
	processes := make([]*workerproc.Process, n)
	for i := range processes {
		processes[i] = workerproc.Start(t, "migrator", fmt.Sprintf("%s&application_name=migrator_%d", db.URL, i))
	}
	if kill {
		killMidway(t, db, processes)
	}
	applied := 0
	for _, p := range processes {
		switch code := p.Wait(t); {
		case code == 0 && printed(p, "applied"):
			applied++
		case code == 0 && printed(p, "found it done"):
		case code == -1 && kill && !killed:
			killed = true
		default:
			t.Errorf("a migrator ended in %d: %s", code, p.Stderr())
		}
	}
	if applied > 1 {
		t.Errorf("%d of %d applied the migrations", applied, n)
	}
	return killed
}

// killMidway kills the process that migrates: the one whose session holds the
// migration lock. If all are through before it is seen, nobody is killed.
func killMidway(t *testing.T, db *testdb.DB, processes []*workerproc.Process) {
	t.Helper()
	for i := 0; i < len(processes); {
		select {
		case <-processes[i].Done():
			i++
			continue
		default:
		}
		holder := testdb.Value[int](t, db, `select coalesce(min(substring(a.application_name from '^migrator_(\d+)$')::int), -1)
			from pg_locks l join pg_stat_activity a using (pid)
			where l.locktype = 'advisory' and l.granted and a.datname = current_database()`)
		if holder >= 0 {
			_ = syscall.Kill(processes[holder].Pid(), syscall.SIGKILL) // it may have ended by now
			return
		}
	}
}

func printed(p *workerproc.Process, line string) bool { return <-p.Printed(line) }

// checkVersions looks for every version, once, and a sound schema.
func checkVersions(t *testing.T, db *testdb.DB) {
	t.Helper()
	state, err := migrations.Status(t.Context(), db.Conn(t), migrations.Config{})
	if err != nil || len(state.Problems) > 0 || len(state.Pending) > 0 {
		t.Errorf("status: %v; problems %v, pending %v", err, state.Problems, state.Pending)
	}
	for i, applied := range state.Applied {
		if applied.Version != i+1 {
			t.Errorf("version %d stands at place %d", applied.Version, i+1)
		}
	}
}

// TestVersionIsUnique: the database itself refuses a version twice.
func TestVersionIsUnique(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	_, err := db.Conn(t).Exec(t.Context(), "insert into lockstep.migration select * from lockstep.migration limit 1")
	if err == nil || !strings.Contains(err.Error(), "23505") {
		t.Errorf("a second row for a version: %v", err)
	}
}

// TestOtherVersions: a program refuses a schema older or newer than itself, and
// says what to do.
func TestOtherVersions(t *testing.T) {
	t.Parallel()
	older, newer := coreDB(t), testdb.New(t)
	newer.Exec(t, "insert into lockstep.migration (version, name, checksum, schema) select max(version) + 1, 'later', '', 'lockstep' from lockstep.migration")
	for name, test := range map[string]struct {
		db   *testdb.DB
		is   error
		says string
	}{
		"older": {older, migrations.ErrPending, "lockstep migrate up"},
		"newer": {newer, migrations.ErrNewer, "use a newer program"},
	} {
		for what, err := range map[string]error{
			"Require":    migrations.Require(t.Context(), test.db.Conn(t), ""),
			"dispatcher": runDispatcher(t, test.db),
		} {
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s schema, %s: %v", name, what, err)
			}
		}
	}
	if err := migrations.Require(t.Context(), testdb.New(t).Pool(t), ""); err != nil {
		t.Errorf("the schema of this version: %v", err)
	}
}
