package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// TestReplaceableFiles: a changed file of functions is applied again, in its
// place, but only on the way to a higher version.
func TestReplaceableFiles(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	const function = "-- replaceable\ncreate or replace function @schema@.word() returns text language sql return '%s'"
	set := files("0001_word.sql", fmt.Sprintf(function, "old"), "0002_thing.sql", "create table @schema@.thing ()")
	up(t, db.Conn(t), migrations.Config{Files: set})

	set["0001_word.sql"] = files("", fmt.Sprintf(function, "new"))[""]
	if _, err := migrations.Up(t.Context(), db.Conn(t), migrations.Config{Files: set}); !errors.Is(err, migrations.ErrChanged) {
		t.Errorf("without a new number Up returned %v", err)
	}
	set["0003_more.sql"] = files("", "insert into @schema@.thing default values")[""]
	if state := status(t, db, migrations.Config{Files: set}); names(state.Pending) != "0001_word.sql 0003_more.sql" || reports(state, migrations.ErrChanged) {
		t.Errorf("pending are %s; problems: %v", names(state.Pending), state.Problems)
	}
	if result := up(t, db.Conn(t), migrations.Config{Files: set}); names(result.Applied) != "0001_word.sql 0003_more.sql" || result.Version != 3 {
		t.Errorf("applied %s, version %d", names(result.Applied), result.Version)
	}
	if word := testdb.Value[string](t, db, "select lockstep.word()"); word != "new" {
		t.Errorf("the function says %q", word)
	}
	if state := status(t, db, migrations.Config{Files: set}); reports(state, migrations.ErrChanged) || len(state.Pending) > 0 {
		t.Errorf("afterwards: pending %s, problems %v", names(state.Pending), state.Problems)
	}
}

func names(set []migrations.Migration) string {
	all := make([]string, len(set))
	for i, migration := range set {
		all[i] = migration.String()
	}
	return strings.Join(all, " ")
}

// definitions is everything a replaceable file may make, as text.
const definitions = `select string_agg(definition, e'\n' order by definition) from (
	select pg_get_functiondef(p.oid) from pg_proc p where pronamespace = 'lockstep'::regnamespace
	union all select pg_get_triggerdef(oid) from pg_trigger where tgrelid = 'lockstep.job'::regclass
	union all select viewname || ': ' || definition from pg_views where schemaname = 'lockstep'
	union all select proacl::text from pg_proc where pronamespace = 'lockstep'::regnamespace) d(definition)`

// TestOwnFilesCanBeReplaced: applying the replaceable files again changes
// nothing, least of all what an operator has set.
func TestOwnFilesCanBeReplaced(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	up(t, db.Conn(t), migrations.Config{})
	db.Exec(t, "select lockstep.set_limits(payload_bytes => 77, text_bytes => 78, entry_timeout => '79 s', retention => '80 days', idempotency_retention => '81 days')")
	before := testdb.Value[string](t, db, definitions)
	want := 1
	set := testdb.Changed(t)
	for _, file := range set {
		if strings.HasPrefix(string(file.Data), "-- replaceable\n") {
			file.Data = append(file.Data, "\n-- changed"...)
			want++
		}
	}
	set[fmt.Sprintf("%04d_more.sql", len(set)+1)] = files("", "select 1")[""]
	if result := up(t, db.Conn(t), migrations.Config{Files: set}); len(result.Applied) != want || want < 10 {
		t.Errorf("%d files were applied, want %d", len(result.Applied), want)
	}
	if after := testdb.Value[string](t, db, definitions); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}
