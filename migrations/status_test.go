package migrations_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

func status(t *testing.T, db *testdb.DB, config migrations.Config) migrations.State {
	t.Helper()
	state, err := migrations.Status(t.Context(), db.Conn(t), config)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestStatusBeforeAndAfter(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	before := status(t, db, migrations.Config{})
	if before.Version != 0 || len(before.Pending) == 0 || len(before.Applied) != 0 || !reports(before, migrations.ErrPending) {
		t.Errorf("before: %+v", before)
	}
	up(t, db.Conn(t), migrations.Config{})
	after := status(t, db, migrations.Config{})
	if after.Version != len(before.Pending) || len(after.Applied) != len(before.Pending) || len(after.Pending) != 0 {
		t.Errorf("after: version %d, %d applied, %d pending", after.Version, len(after.Applied), len(after.Pending))
	}
	if len(after.Problems) != 0 {
		t.Errorf("problems of a new schema: %v", after.Problems)
	}
	if after.Schema != "lockstep" || after.Server == "" || after.Applied[0].AppliedAt.IsZero() {
		t.Errorf("after: %+v", after)
	}
}

func TestNewerSchema(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	set := two()
	up(t, db.Conn(t), migrations.Config{Files: set})
	delete(set, "0002_first.sql")
	config := migrations.Config{Files: set}
	if _, err := migrations.Up(t.Context(), db.Conn(t), config); !errors.Is(err, migrations.ErrNewer) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("Up returned %v", err)
	}
	if state := status(t, db, config); !reports(state, migrations.ErrNewer) || state.Version != 2 {
		t.Errorf("Status reports version %d, %v", state.Version, state.Problems)
	}
}

func TestEditedFile(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(files map[string]string){
		"content": func(files map[string]string) { files["0001_thing.sql"] += " -- edited" },
		"name": func(files map[string]string) {
			files["0001_other.sql"] = files["0001_thing.sql"]
			delete(files, "0001_thing.sql")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testdb.NewEmpty(t)
			up(t, db.Conn(t), migrations.Config{Files: two()})
			contents := map[string]string{}
			for file, content := range two() {
				contents[file] = string(content.Data)
			}
			edit(contents)
			edited := files("0003_next.sql", "select 1")
			for file, content := range contents {
				edited[file] = files("", content)[""]
			}
			config := migrations.Config{Files: edited}
			_, err := migrations.Up(t.Context(), db.Conn(t), config)
			if !errors.Is(err, migrations.ErrChanged) || !strings.Contains(err.Error(), "migrate down") {
				t.Errorf("Up returned %v", err)
			}
			if state := status(t, db, config); !reports(state, migrations.ErrChanged) || state.Version != 2 {
				t.Errorf("Status reports version %d, %v", state.Version, state.Problems)
			}
		})
	}
}

// TestTriggers has each trigger that the files make missing and switched off in
// turn: this package must know them all.
func TestTriggers(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	names := testdb.Value[[]string](t, db, `select array_agg(tgname::text order by tgname)
		from pg_trigger where tgrelid = 'lockstep.job'::regclass and not tgisinternal`)
	for _, name := range names {
		for _, each := range []struct {
			sql  string
			want migrations.TriggerState
			ok   bool
		}{
			{"alter table lockstep.job disable trigger " + name, migrations.TriggerDisabled, false},
			{"alter table lockstep.job enable replica trigger " + name, migrations.TriggerReplicaOnly, false},
			{"alter table lockstep.job enable always trigger " + name, migrations.TriggerAlways, true},
			{"alter table lockstep.job enable trigger " + name, migrations.TriggerEnabled, true},
			{"drop trigger " + name + " on lockstep.job", migrations.TriggerMissing, false},
		} {
			db.Exec(t, "begin; "+each.sql+"; commit")
			state := status(t, db, migrations.Config{})
			if !slices.Contains(state.Triggers, migrations.Trigger{Name: name, State: each.want}) {
				t.Errorf("%s: Status reports %v", each.sql, state.Triggers)
			}
			if mentioned := strings.Contains(fmt.Sprint(state.Problems), name); mentioned == each.ok {
				t.Errorf("%s: problems %v", each.sql, state.Problems)
			}
		}
	}
	if !reports(status(t, db, migrations.Config{}), migrations.ErrTrigger) {
		t.Error("a schema without its triggers has no problem")
	}
}

func TestForcedRowSecurity(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, "alter table lockstep.job force row level security")
	if state := status(t, db, migrations.Config{}); !reports(state, migrations.ErrRowSecurity) {
		t.Errorf("Status reports %v", state.Problems)
	}
}

func TestStatusInAnyDateStyle(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	conn := db.Conn(t)
	if _, err := conn.Exec(t.Context(), "set datestyle = 'German'"); err != nil {
		t.Fatal(err)
	}
	up(t, conn, migrations.Config{})
	state, err := migrations.Status(limited(t), conn, migrations.Config{})
	if err != nil || len(state.Applied) == 0 || time.Since(state.Applied[0].AppliedAt).Abs() > time.Minute {
		t.Errorf("%+v, %v", state.Applied, err)
	}
}
