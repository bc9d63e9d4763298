package verify_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/store/verify"
)

// TestNamesAreOnlyNames has SQL, quotes and line ends in every name there is.
func TestNamesAreOnlyNames(t *testing.T) {
	t.Parallel()
	const evil = "a\"b'; drop table x; --\n@schema@ %d é"
	db := testdb.NewEmpty(t)
	db.Migrate(t, migrations.Config{Schema: `my "Jobs' @nobody@`})
	conn := db.Conn(t)
	s := store.New(conn).In(`my "Jobs' @nobody@`)
	for range 2 {
		if _, err := s.Enqueue(t.Context(), store.NewJob{Kind: evil, Queue: evil, Tenant: evil, OrderingKey: evil}); err != nil {
			t.Fatal(err)
		}
	}
	db.Exec(t, `delete from "my ""Jobs' @nobody@".job where stage = 'r'`)
	report, err := verify.Run(t.Context(), conn, verify.Config{Schema: `my "Jobs' @nobody@`, Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) != 1 || report.Findings[0].Class != verify.Headless {
		t.Fatalf("found %v, want a lane without a head", report.Findings)
	}
	f := report.Findings[0]
	if want := (verify.Lane{Queue: evil, Tenant: evil, OrderingKey: evil}); f.Lane != want {
		t.Errorf("lane = %v, want %v", f.Lane, want)
	}
	if line := f.String(); strings.ContainsRune(line, '\n') {
		t.Errorf("the finding takes more than one line: %s", line)
	}
}

func TestASchemaThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, err := verify.Run(t.Context(), testdb.NewEmpty(t).Conn(t), verify.Config{})
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "3F000" {
		t.Errorf("err = %v, want that there is no schema", err)
	}
}

func TestOnlyReads(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue("a")
	reader := "reader_" + s.db.Name
	s.sql("create role " + reader)
	s.sql("grant usage on schema lockstep to " + reader)
	s.sql("grant select on all tables in schema lockstep to " + reader)
	s.sql("grant execute on function lockstep.retention, lockstep.paused, lockstep.kind_rank to " + reader)
	s.sql("set role " + reader) // may read, and nothing else
	s.sql("set default_transaction_read_only = on")
	clean(t, s.verify(verify.Config{IDs: ids(1)}))
}

// TestHiddenRowsAreNotMissing: with the first tenant row-level security is on, and
// hides the jobs of a role that may read but is named by no policy.
func TestHiddenRowsAreNotMissing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	id := s.enqueue("a")
	reader, tenant := "reader_"+s.db.Name, "tenant_"+s.db.Name
	s.sql("create role " + reader + "; create role " + tenant)
	s.sql("grant usage on schema lockstep to " + reader)
	s.sql("grant select on all tables in schema lockstep to " + reader)
	s.sql("grant execute on function lockstep.retention, lockstep.paused, lockstep.kind_rank to " + reader)
	s.sql("select lockstep.grant_tenant($1)", tenant)
	clean(t, s.verify(verify.Config{IDs: ids(id)}))
	s.sql("set role " + reader)
	report, err := verify.Run(s.Context(), s.conn, verify.Config{Patience: -1, IDs: ids(id)})
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "42501" || len(report.Findings) > 0 {
		t.Errorf("%v, %v; want a refusal", report.Findings, err)
	}
	s.sql("reset role")
	s.sql("alter role " + reader + " bypassrls")
	s.sql("set role " + reader)
	clean(t, s.verify(verify.Config{IDs: ids(id)}))
}

func TestSettingsOfTheUserDoNotMatter(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.run(s.enqueue("a"), store.Failed, store.Completed)
	s.sql(`create schema evil; create function evil.lt(timestamptz, timestamptz) returns boolean language sql as 'select true';
		create operator evil.< (function = evil.lt, leftarg = timestamptz, rightarg = timestamptz);
		create function evil.now() returns timestamptz language sql as 'select null::timestamptz';
		set search_path = evil, pg_catalog; set timezone = 'Asia/Kathmandu'; set datestyle = 'German'; set intervalstyle = 'sql_standard'`)
	clean(t, s.verify(verify.Config{}))
}

func TestEveryExecModeWorks(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.run(s.enqueue("a"), store.Completed)
	s.plant("update lockstep.job set kind = 'other'")
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe} {
		config, err := pgx.ParseConfig(s.db.URL)
		if err != nil {
			t.Fatal(err)
		}
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		report, err := verify.Run(t.Context(), conn, verify.Config{Patience: -1, IDs: ids(1)})
		if err != nil || !report.Clean() || report.Checked.Finished != 1 || report.Checked.IDs.Completed != 1 {
			t.Errorf("%v: %+v, %v", mode, report, err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestStatementTimeout(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.sql("insert into lockstep.job (kind) select 'k' from generate_series(1, 20000)")
	var pg *pgconn.PgError
	_, err := verify.Run(t.Context(), s.conn, verify.Config{StatementTimeout: time.Microsecond})
	if !errors.As(err, &pg) || pg.Code != "57014" {
		t.Errorf("err = %v, want a cancelled statement", err)
	}
	s.sql("set statement_timeout = '1 h'")
	clean(t, s.verify(verify.Config{StatementTimeout: time.Minute}))
	if got := s.setting("statement_timeout"); got != "1h" {
		t.Errorf("statement_timeout is %s afterwards, want the session's own", got)
	}
}

func (s *stage) setting(name string) (value string) {
	s.Helper()
	if err := s.conn.QueryRow(s.Context(), "select current_setting($1)", name).Scan(&value); err != nil {
		s.Fatal(err)
	}
	return value
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, config := range []verify.Config{{Limit: -1}, {Overdue: -time.Second}} {
		if _, err := verify.Run(t.Context(), nil, config); err == nil {
			t.Errorf("%+v was taken", config)
		}
	}
}

// TestManyFindingsAreCounted, and the first of them kept.
func TestManyFindingsAreCounted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.sql("insert into lockstep.job (kind, ordering_key) select 'k', 'key ' || i from generate_series(1, 20) i, generate_series(1, 2)")
	s.plant("delete from lockstep.job where stage = 'r'")
	for _, patience := range []time.Duration{-1, time.Nanosecond} {
		report := s.verify(verify.Config{Limit: 3, Patience: patience})
		if len(report.Findings) != 3 || report.Totals[verify.Headless] != 20 || report.Found() != 20 {
			t.Errorf("patience %v: %d findings kept, %v in all; want 3 and 20", patience, len(report.Findings), report.Totals)
		}
	}
}

func TestSaysHowToKeepCommitTimes(t *testing.T) {
	t.Parallel()
	server, err := postgres.Start(t.Context(), postgres.Config{InMemory: true, Settings: map[string]string{"track_commit_timestamp": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := migrations.Up(t.Context(), conn, migrations.Config{}); err != nil {
		t.Fatal(err)
	}
	report, err := verify.Run(t.Context(), conn, verify.Config{})
	if err != nil || !report.Clean() || report.CommitTimes {
		t.Fatalf("%+v, %v", report, err)
	}
	if len(report.Notices) != 1 || !strings.Contains(report.Notices[0].Text, "alter system set track_commit_timestamp = on") {
		t.Errorf("notices = %v, want what turns commit times on", report.Notices)
	}
}

// TestNumbersOfAnotherCluster: the rows of a restored database name transactions
// of the old one.
func TestNumbersOfAnotherCluster(t *testing.T) {
	t.Parallel()
	for _, xid := range []string{"enqueued_xid::text::numeric + 4294967296", "3", "700"} {
		s, _ := threeInALane(t)
		s.plant(fmt.Sprintf("update lockstep.finished_job set enqueued_xid = ((%s)::text)::xid8 where id %% 2 = 0", xid))
		report := s.verify(verify.Config{})
		clean(t, report)
		if report.Checked.Untimed == 0 || report.Checked.Timed == 0 {
			t.Errorf("%s: %+v", xid, report.Checked)
		}
	}
}
