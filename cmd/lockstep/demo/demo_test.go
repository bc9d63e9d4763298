package demo

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// output keeps what the demo prints, and tells when a text appears in it.
type output struct {
	mu       sync.Mutex
	text     strings.Builder
	awaited  string
	appeared chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.awaited != "" && strings.Contains(o.text.String(), o.awaited)
	n, err := o.text.Write(p)
	if o.awaited != "" && !before && strings.Contains(o.text.String(), o.awaited) {
		close(o.appeared)
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func schemas(t *testing.T, db *testdb.DB) int {
	t.Helper()
	return testdb.Value[int](t, db, "select count(*) from pg_namespace where nspname like 'lockstep_demo_%'")
}

func TestDemoKeepsItsPromisesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	out := &output{}
	err := Run(t.Context(), Config{Database: db.Pool(t).Config(), Length: 2 * time.Second, Burst: 600, Out: out})
	if err != nil {
		t.Errorf("Run: %v", err)
	}
	if !strings.HasSuffix(out.String(), "\nlost 0\noverlapped 0\nout of order 0\n") {
		t.Errorf("the demo ended in other words:\n%s", out)
	}
	if n := schemas(t, db); n != 0 {
		t.Errorf("the demo left %d schemas behind", n)
	}
}

func TestDemoSaysWhenCommitTimesAreNotKept(t *testing.T) {
	t.Parallel()
	server, err := postgres.Start(t.Context(), postgres.Config{InMemory: true, Settings: map[string]string{"track_commit_timestamp": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	config, err := pgxpool.ParseConfig(server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	out := &output{}
	if err := Run(t.Context(), Config{Database: config, Length: time.Second, Burst: 300, Out: out}); err != nil {
		t.Errorf("Run: %v", err)
	}
	if !strings.Contains(out.String(), "track_commit_timestamp is off") || !strings.HasSuffix(out.String(), "\nout of order 0\n") {
		t.Errorf("the report:\n%s", out)
	}
}

func TestStoppedDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	out := &output{awaited: "enqueued", appeared: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Run(ctx, Config{Database: db.Pool(t).Config(), Length: time.Minute, Out: out}) }()
	select {
	case <-out.appeared:
	case err := <-ended:
		t.Fatalf("the demo ended by itself: %v\n%s", err, out)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want context.Canceled", err)
	}
	if n := schemas(t, db); n != 0 {
		t.Errorf("the demo left %d schemas behind", n)
	}
}
