package sidecar

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

// TestInOrderThroughKills: a thousand jobs over twenty keys. The sidecar is
// killed, then the app, then nothing comes through between the two for longer
// than a push may take. Each key stays one at a time and in order, and nothing
// is lost.
func TestInOrderThroughKills(t *testing.T) {
	t.Parallel()
	const keys, perKey = 20, 50
	db := testdb.New(t)
	db.Exec(t, "select lockstep.set_queue('default', backoff_base => '50 ms', backoff_factor => 1)")
	dir := t.TempDir()
	journal, port := filepath.Join(dir, "journal"), filepath.Join(dir, "port")
	apps := 0
	startApp := func() *workerproc.Process {
		apps++
		file := fmt.Sprint(port, apps)
		p := workerproc.Start(t, "app", journal, file, "5ms")
		p.Await(t, "ready")
		return p
	}
	app := startApp()
	proxy, err := faultproxy.Start(address(t, port+"1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	args := []string{"--push", fmt.Sprintf("http://127.0.0.1:%d/jobs", proxy.Port()), "--push-timeout", "1s", "--lease", "1s", "--queue", "default=30", "--poll", "10m"}
	car := run(t, db, args...)

	reached := func(share int) {
		until(t, fmt.Sprintf("%d of 4 shares have ended", share), func() bool { return count(readJournal(journal), "end") >= share*keys*perKey/4 })
	}
	db.Exec(t, "select lockstep.enqueue('k', to_jsonb(i), ordering_key => k::text) from generate_series(1, 50) i, generate_series(1, 20) k")
	reached(1)
	car.Kill(t)
	run(t, db, args...)
	reached(2)
	app.Kill(t)
	startApp()
	proxy.LeadTo(address(t, port+"2"))
	proxy.Reset()
	reached(3)
	proxy.Set(faultproxy.BlackHole)
	until(t, "a push came to its timeout", func() bool {
		return testdb.Value[bool](t, db, "select exists (select from lockstep.attempts where error like '%no answer within%')")
	})
	proxy.Set(faultproxy.Fault{})
	proxy.Reset()
	drained(t, db)
	all := readJournal(journal)
	judge(t, all, keys, perKey)
	expect(t, db, keys*perKey, "completed jobs", "count(*) from lockstep.jobs where state = 'completed'")
	t.Logf("%d begun, %d ended, %d refused for a stale token", count(all, "begin"), count(all, "end"), count(all, "refused"))
}

// TestAnAppThatGoesOn: it does not notice that its caller has gone, and sees a
// greater token at the second attempt.
func TestAnAppThatGoesOn(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, "select lockstep.set_queue('default', backoff_base => '10 ms')")
	dir := t.TempDir()
	journal, port := filepath.Join(dir, "journal"), filepath.Join(dir, "port")
	workerproc.Start(t, "app", journal, port, "1h").Await(t, "ready")
	run(t, db, "--push", "http://"+address(t, port)+"/jobs", "--push-timeout", "100ms")
	db.Exec(t, "select lockstep.enqueue('k', '1', ordering_key => 'a', max_attempts => 2)")
	drained(t, db)
	var tokens []int64
	for _, r := range readJournal(journal) {
		if r.Event == "begin" {
			tokens = append(tokens, r.Token)
		}
	}
	if len(tokens) != 2 || tokens[1] <= tokens[0] {
		t.Errorf("the app saw the tokens %v, want two that grow", tokens)
	}
	expect(t, db, "dead", "the state", "state from lockstep.jobs")
}
