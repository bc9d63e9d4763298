package testdb

import (
	"bytes"
	"context"
	"io/fs"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/migrations"
)

// DB is one test's database.
type DB struct {
	// Name is the database's name on its server.
	Name string

	// URL connects to it as the server's superuser.
	URL string

	mu   sync.Mutex
	conn *pgx.Conn // what Exec and Value use, made when needed
}

// New gives a test a database with the schema lockstep, migrated.
func New(t testing.TB) *DB {
	t.Helper()
	return newDB(t, migrated)
}

// NewEmpty gives a test a database with nothing in it.
func NewEmpty(t testing.TB) *DB {
	t.Helper()
	return newDB(t, empty)
}

// NewFrom gives a test a database with the schema lockstep as a changed set of
// migrations makes it: with a rule taken out, say. Where an upgrade from the
// program's own set comes to the same it is one, which takes less time.
func NewFrom(t testing.TB, files fs.FS) *DB {
	t.Helper()
	with := empty
	if upgradable(t, files) {
		with = older
	}
	db := newDB(t, with)
	db.Migrate(t, migrations.Config{Files: files})
	return db
}

// upgradable tells whether all that differs from the program's migrations are
// replaceable ones, and in these nothing that is made only where it is missing.
func upgradable(t testing.TB, files fs.FS) bool {
	for name, own := range Changed(t) {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return false
		}
		replaceable := bytes.HasPrefix(text, []byte("-- replaceable")) &&
			slices.EqualFunc(blocks.FindAll(text, -1), blocks.FindAll(own.Data, -1), bytes.Equal)
		if !replaceable && !bytes.Equal(text, own.Data) {
			return false
		}
	}
	return true
}

// blocks finds where a replaceable migration makes what is missing.
var blocks = regexp.MustCompile(`(?ms)^do \$.*?^end \$`)

func newDB(t testing.TB, with content) *DB {
	t.Helper()
	name := create(t, with)
	t.Cleanup(func() { drop(t, name) })
	return &DB{Name: name, URL: Server(t).URL(name)}
}

// Migrate brings a schema up in this database.
func (db *DB) Migrate(t testing.TB, config migrations.Config) {
	t.Helper()
	if _, err := migrations.Up(t.Context(), db.Conn(t), config); err != nil {
		t.Fatal(err)
	}
}

// Pool returns a new pool, closed when the test ends.
func (db *DB) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Conn returns a new connection, closed when the test ends.
func (db *DB) Conn(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Exec runs a statement on a connection that the test's helpers share, or,
// without arguments, any number of statements. An error ends the test. It may be
// used in a cleanup too.
func (db *DB) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	db.mu.Lock()
	defer db.mu.Unlock()
	if _, err := db.shared(t).Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%v\nin: %s", err, sql)
	}
}

// Value reads one value of one row, on the connection that Exec uses. An error
// ends the test, no row too.
func Value[T any](t testing.TB, db *DB, sql string, args ...any) T {
	t.Helper()
	db.mu.Lock()
	defer db.mu.Unlock()
	var value T
	if err := db.shared(t).QueryRow(context.Background(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%v\nin: %s", err, sql)
	}
	return value
}

func (db *DB) shared(t testing.TB) *pgx.Conn {
	t.Helper()
	if db.conn == nil {
		db.conn = db.Conn(t)
	}
	return db.conn
}
