package migrations_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
)

// legalNames are names that quoting goes wrong for, if it can.
var legalNames = []string{
	"Jobs", "my-jobs", `a"b`, "a'b", `a\b`, "select", "two words", "a.b", "a$b", "a$$b", "$function$", "$functionq$", "$name$", "@schema@",
	"@schema_literal@", "%s", "größe", "public", " ", strings.Repeat("x", 63), strings.Repeat("ü", 31), "a,b", "a;b--c", "1",
}

func TestLegalSchemaNames(t *testing.T) {
	t.Parallel()
	// Names appear as identifier, as string, in a string, in a function's body
	// and settings.
	set := files("0001_all.sql", `
		create sequence @schema@.s;
		create table @schema@.name (n bigint default nextval($name$@schema@.s$name$), name text default @schema_literal@);
		create or replace function @schema@.read() returns text language plpgsql set search_path = @schema@, pg_temp
		as $function$ begin return (select name from @schema@.name where name.name = @schema_literal@); end $function$;
		create or replace function @schema@.path() returns text language sql set search_path = @schema@
		as $$ select current_schema() $$;
		insert into @schema@.name default values;`)
	db := testdb.NewEmpty(t)
	for _, name := range legalNames {
		conn := db.Conn(t)
		if _, err := conn.Exec(t.Context(), "set standard_conforming_strings = off"); err != nil {
			t.Fatal(err)
		}
		up(t, conn, migrations.Config{Schema: name, Files: set})
		quoted := pgx.Identifier{name}.Sanitize()
		for _, query := range []string{"name from " + quoted + ".name", quoted + ".read()", quoted + ".path()"} {
			var got string
			if err := conn.QueryRow(t.Context(), "select "+query).Scan(&got); err != nil || got != name {
				t.Errorf("%q: select %s gave %q (%v)", name, query, got, err)
			}
		}
	}
}

func TestOwnFilesInEverySchema(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	conn := db.Conn(t)
	for _, name := range legalNames {
		if _, err := migrations.Up(limited(t), conn, migrations.Config{Schema: name}); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		state, err := migrations.Status(limited(t), conn, migrations.Config{Schema: name})
		if err != nil || len(state.Problems) > 0 {
			t.Errorf("%q: %v, %v", name, err, state.Problems)
		}
	}
}

func TestRefusedSchemaNames(t *testing.T) {
	t.Parallel()
	conn := testdb.NewEmpty(t).Conn(t)
	for _, name := range []string{
		strings.Repeat("x", 64), strings.Repeat("ü", 32), "a\x00b", "a\xffb", "pg_jobs", "information_schema",
	} {
		config := migrations.Config{Schema: name, Files: two()}
		_, upErr := migrations.Up(t.Context(), conn, config)
		_, statusErr := migrations.Status(t.Context(), conn, config)
		downErr := migrations.Down(t.Context(), conn, config, migrations.DropEverything)
		for _, err := range []error{upErr, statusErr, downErr} {
			if !errors.Is(err, migrations.ErrSchemaName) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

func TestEmptySchemaNameIsTheDefault(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	up(t, db.Conn(t), migrations.Config{Files: two()})
	if got := testdb.Value[string](t, db, "select name from lockstep.thing"); got != migrations.DefaultSchema {
		t.Errorf("the schema is %q", got)
	}
}

func TestRenamedSchema(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	conn := db.Conn(t)
	up(t, conn, migrations.Config{Files: two()})
	db.Exec(t, "alter schema lockstep rename to moved")
	config := migrations.Config{Schema: "moved", Files: two()}
	_, err := migrations.Up(t.Context(), conn, config)
	if !errors.Is(err, migrations.ErrRenamed) || !strings.Contains(err.Error(), `"lockstep"`) {
		t.Errorf("Up returned %v", err)
	}
	state, err := migrations.Status(t.Context(), conn, config)
	if err != nil || !reports(state, migrations.ErrRenamed) {
		t.Errorf("Status reports %v (%v)", state.Problems, err)
	}
}

// reports tells whether a problem is among those of a state.
func reports(state migrations.State, problem error) bool {
	return errors.Is(errors.Join(state.Problems...), problem)
}
