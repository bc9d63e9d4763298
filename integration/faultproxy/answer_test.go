package faultproxy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

func isCommit(sql string) bool { return strings.EqualFold(sql, "commit") }

func isInsert(sql string) bool { return strings.HasPrefix(sql, "insert") }

// TestCommitWithoutAnswer: the commit took place, and its client can't know.
func TestCommitWithoutAnswer(t *testing.T) {
	t.Parallel()
	db, proxy, conn := database(t)
	lost, forget := proxy.LoseAnswer(isCommit)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "insert into kept values ($1)", 7); err != nil {
		t.Fatal(err)
	}
	expectNoAnswer(t, tx.Commit(t.Context()))
	if answer := receive(t, lost); answer.Tag != "COMMIT" || !isCommit(answer.SQL) {
		t.Errorf("lost %q to %q", answer.Tag, answer.SQL)
	}
	if forget() {
		t.Error("the order can be taken back although it was carried out")
	}
	expectKept(t, db, 7)
}

// TestStatementWithoutAnswer: the same for a statement that is its own
// transaction, in each of the ways in which pgx sends it, the first time and when it is
// prepared already.
func TestStatementWithoutAnswer(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		for before := range 2 {
			t.Run(fmt.Sprintf("%v after %d", mode, before), func(t *testing.T) {
				t.Parallel()
				db, proxy, conn := database(t)
				insert := func(n int) error {
					_, err := conn.Exec(t.Context(), "insert into kept values ($1)", mode, n)
					return err
				}
				for n := range before {
					if err := insert(n); err != nil {
						t.Fatal(err)
					}
				}
				lost, _ := proxy.LoseAnswer(isInsert)
				expectNoAnswer(t, insert(7))
				if answer := receive(t, lost); answer.Tag != "INSERT 0 1" {
					t.Errorf("lost %q", answer.Tag)
				}
				expectKept(t, db, append([]int{0}[:before], 7)...)
			})
		}
	}
}

// TestRefusalIsAnswered: what commits nothing is not in doubt, so the order
// waits for what does.
func TestRefusalIsAnswered(t *testing.T) {
	t.Parallel()
	db, proxy, conn := database(t)
	lost, _ := proxy.LoseAnswer(func(sql string) bool { return isCommit(sql) || isInsert(sql) })
	var refused *pgconn.PgError
	if _, err := conn.Exec(t.Context(), "insert into kept values ('x')"); !errors.As(err, &refused) {
		t.Fatalf("a statement that fails: %v", err)
	}
	_, _ = conn.Exec(t.Context(), "begin")
	if _, err := conn.Exec(t.Context(), "insert into kept values (1)"); err != nil {
		t.Fatalf("a statement in an open transaction: %v", err)
	}
	_, _ = conn.Exec(t.Context(), "no such statement")
	if tag, err := conn.Exec(t.Context(), "commit"); err != nil || tag.String() != "ROLLBACK" {
		t.Fatalf("a commit that rolls back: %v, %v", tag, err)
	}
	select {
	case answer := <-lost:
		t.Fatalf("lost %+v", answer)
	default:
	}
	_, err := conn.Exec(t.Context(), "insert into kept values (7)")
	expectNoAnswer(t, err)
	receive(t, lost)
	expectKept(t, db, 7)
}

// TestForgottenOrder: what was taken back is answered, and so is what nobody
// asked to lose.
func TestForgottenOrder(t *testing.T) {
	t.Parallel()
	_, proxy, conn := database(t)
	_, forget := proxy.LoseAnswer(isInsert)
	if _, err := conn.Exec(t.Context(), "select 1"); err != nil {
		t.Error(err)
	}
	if !forget() {
		t.Error("an order that nothing came for can't be taken back")
	}
	if _, err := conn.Exec(t.Context(), "insert into kept values (1)"); err != nil {
		t.Error(err)
	}
}

// TestOrderOutlivesItsConnection: one that breaks before the answer is there
// leaves the order to the next.
func TestOrderOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	db, proxy, conn := database(t)
	lost, _ := proxy.LoseAnswer(func(sql string) bool { return strings.Contains(sql, "kept") })
	blocker := db.Conn(t)
	if _, err := blocker.Exec(t.Context(), "begin; lock table kept"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), "insert into kept values (1)")
		ended <- err
	}()
	for testdb.Value[int](t, db, "select count(*) from pg_locks where not granted and database = (select oid from pg_database where datname = current_database())") == 0 {
		<-time.After(time.Millisecond)
	}
	proxy.Reset()
	expectNoAnswer(t, receive(t, ended))
	if _, err := blocker.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	again := connect(t, db, proxy)
	_, err := again.Exec(t.Context(), "insert into kept values (2)")
	expectNoAnswer(t, err)
	receive(t, lost)
}

// database is one with an empty table, and a connection to it through a proxy.
func database(t *testing.T) (*testdb.DB, *faultproxy.Proxy, *pgx.Conn) {
	t.Helper()
	db := testdb.NewEmpty(t)
	db.Exec(t, "create table kept (n int)")
	server := testdb.Server(t)
	proxy := startFor(t, net.JoinHostPort(server.Host(), fmt.Sprint(server.Port())))
	return db, proxy, connect(t, db, proxy)
}

func connect(t *testing.T, db *testdb.DB, proxy *faultproxy.Proxy) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.Host, config.Port = "127.0.0.1", uint16(proxy.Port())
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// expectNoAnswer wants an error of the connection, not one of the server.
func expectNoAnswer(t *testing.T, err error) {
	t.Helper()
	var refused *pgconn.PgError
	if err == nil || errors.As(err, &refused) {
		t.Fatalf("the client heard an answer: %v", err)
	}
}

func expectKept(t *testing.T, db *testdb.DB, want ...int) {
	t.Helper()
	if got := testdb.Value[[]int](t, db, "select array_agg(n order by n) from kept"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the table holds %v, want %v", got, want)
	}
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}
