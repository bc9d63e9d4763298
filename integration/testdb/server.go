package testdb

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/migrations"
)

// shared is the server of this test process.
var shared struct {
	once   sync.Once
	server *postgres.Server
	err    error

	mu        sync.Mutex // creating and dropping databases: they get in each other's way
	admin     *pgx.Conn
	count     int
	templates [migrated + 1]string // the databases that others are copied from; "" until somebody needs it
}

// content is what is in a new database.
type content int

const (
	empty    content = iota
	older            // the schema without its last migration
	migrated         // the schema
)

// Main runs a package's tests, ends the server that they shared, and checks
// that no goroutine is left. It returns the exit code for TestMain.
func Main(m *testing.M) int {
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "testdb:", err)
		code = 1
	}
	if code != 0 {
		return code // what a failed test left running is not news
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "testdb:", err)
		return 1
	}
	return 0
}

func closeShared() error {
	if shared.server == nil {
		return nil
	}
	if shared.admin != nil {
		_ = shared.admin.Close(context.Background()) // the server goes next
	}
	return shared.server.Close()
}

// Server is the server that this process's tests share. Do not stop or crash
// it: a test that needs to starts its own.
func Server(t testing.TB) *postgres.Server {
	t.Helper()
	shared.once.Do(func() {
		shared.server, shared.err = postgres.Start(context.Background(), postgres.Config{InMemory: true})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// create makes a database as a copy of a template. Taking turns is part of it: a
// template must have no other visitor.
func create(t testing.TB, with content) string {
	t.Helper()
	server := Server(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	ctx := context.Background() // a test that is cut off must not cut the others' connection
	if shared.admin == nil {
		var err error
		if shared.admin, err = pgx.Connect(ctx, server.URL("postgres")); err != nil {
			t.Fatal(err)
		}
	}
	if shared.templates[with] == "" {
		if err := makeTemplate(ctx, t, with); err != nil {
			t.Fatal(err)
		}
	}
	name, err := copyOf(ctx, shared.templates[with])
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// makeTemplate makes the database that others are copied from.
func makeTemplate(ctx context.Context, t testing.TB, with content) error {
	const nothing = "template0"
	if with == empty {
		shared.templates[empty] = nothing
		return nil
	}
	files := Changed(t)
	if with == older {
		delete(files, slices.Max(slices.Collect(maps.Keys(files))))
	}
	name, err := copyOf(ctx, nothing)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, shared.server.URL(name))
	if err != nil {
		return err
	}
	_, err = migrations.Up(ctx, conn, migrations.Config{Files: files})
	_ = conn.Close(ctx)
	if err != nil {
		return fmt.Errorf("migrating the template: %w", err)
	}
	if _, err := shared.admin.Exec(ctx, "alter database "+name+" allow_connections false"); err != nil {
		return err
	}
	shared.templates[with] = name
	return nil
}

func copyOf(ctx context.Context, template string) (string, error) {
	shared.count++
	name := fmt.Sprintf("test_%d", shared.count)
	_, err := shared.admin.Exec(ctx, "create database "+name+" template "+template)
	return name, err
}

// drop removes a database with everybody in it.
func drop(t testing.TB, name string) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if _, err := shared.admin.Exec(context.Background(), "drop database "+name+" with (force)"); err != nil {
		t.Errorf("dropping the test's database: %v", err)
	}
}
