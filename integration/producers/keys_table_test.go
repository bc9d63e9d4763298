package producers_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

var policies = []store.Dedupe{store.DedupeReject, store.DedupeReplace, store.DedupeOneMore}

// documented are the rows of a table in docs/keys.md whose header begins so, without
// the backquotes.
func documented(t *testing.T, header string) [][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/keys.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n| "+header)
	if !found {
		t.Fatalf("docs/keys.md has no table %q", header)
	}
	var rows [][]string
	for _, line := range strings.Split(after, "\n")[2:] {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		cells := strings.Split(strings.Trim(line, "| "), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// keyScene is a job with a dedupe key in a queue of its own.
type keyScene struct {
	*deduper
	queue  string
	policy store.Dedupe
}

func (k *keyScene) request(version int) store.NewJob {
	return store.NewJob{Kind: "k", Queue: k.queue, OrderingKey: "lane", DedupeKey: "key", Dedupe: k.policy, Payload: version}
}

// ask enqueues by one way or the other.
func (k *keyScene) ask(bulk bool, version int) store.Enqueued {
	k.t.Helper()
	var (
		answers = make([]store.Enqueued, 1)
		err     error
	)
	if bulk {
		answers, err = k.s.EnqueueMany(k.t.Context(), []store.NewJob{k.request(version)})
	} else {
		answers[0], err = k.s.Enqueue(k.t.Context(), k.request(version))
	}
	if err != nil || len(answers) != 1 {
		k.t.Fatalf("%s, %s: %+v, %v", k.queue, k.policy, answers, err)
	}
	return answers[0]
}

// take claims the queue's head.
func (k *keyScene) take() store.Job {
	k.t.Helper()
	claimed, err := k.s.Claim(k.t.Context(), store.ClaimArgs{Worker: k.worker, Queue: k.queue, Kinds: []string{"k"}, Max: 10, Lease: time.Minute})
	if err != nil || len(claimed.Jobs) != 1 {
		k.t.Fatalf("%s, %s: claimed %+v, %v; want one job", k.queue, k.policy, claimed, err)
	}
	return claimed.Jobs[0]
}

// bring enqueues the job and brings it into a state of the table.
func (k *keyScene) bring(state string) int64 {
	k.t.Helper()
	if state == "waiting" {
		k.db.Exec(k.t, "insert into lockstep.job (kind, queue, ordering_key) values ('k', $1, 'lane')", k.queue)
	}
	if state == "dead, blocking its lane" {
		k.db.Exec(k.t, "select lockstep.set_queue($1, on_dead => 'block')", k.queue)
	}
	job := k.request(1)
	if state == "scheduled" {
		job.Delay = time.Hour
	}
	first, err := k.s.Enqueue(k.t.Context(), job)
	if err != nil {
		k.t.Fatal(err)
	}
	switch state {
	case "scheduled", "waiting", "ready":
	case "running":
		k.take()
	case "retrying":
		k.finish(k.take(), store.Failed, time.Hour)
	case "snoozed":
		k.finish(k.take(), store.Snoozed, time.Hour)
	case "given back":
		k.finish(k.take(), store.Released, 0)
	case "lost by its worker":
		k.take()
		k.db.Exec(k.t, "update lockstep.job set lease_until = clock_timestamp() where id = $1", first.ID)
	case "completed":
		k.finish(k.take(), store.Completed, 0)
	case "cancelled":
		if _, err := k.s.Cancel(k.t.Context(), first.ID); err != nil {
			k.t.Fatal(err)
		}
	case "dead", "dead, blocking its lane":
		k.finish(k.take(), store.Dead, 0)
	case "replayed":
		k.finish(k.take(), store.Dead, 0)
		k.expectReplay(first.ID, store.Replayed)
	default:
		k.t.Fatalf("docs/keys.md has a state that this test does not know: %q", state)
	}
	return first.ID
}

// TestPoliciesAnswerAsDocumented (C76, C79) brings a job into each state of the
// table in docs/keys.md and asks under each policy, by either call.
func TestPoliciesAnswerAsDocumented(t *testing.T) {
	t.Parallel()
	rows := documented(t, "the job of the key is")
	if len(rows) < 13 {
		t.Fatalf("%d states in docs/keys.md", len(rows))
	}
	for _, row := range rows {
		t.Run(row[0], func(t *testing.T) {
			t.Parallel()
			db := testdb.New(t)
			d := &deduper{t: t, db: db, s: store.New(db.Conn(t)), worker: store.NewWorkerID()}
			for i, policy := range policies {
				for _, bulk := range []bool{false, true} {
					k := &keyScene{deduper: d, queue: fmt.Sprint(policy, " ", bulk), policy: policy}
					k.expect(k.bring(row[0]), bulk, row[1+i])
				}
			}
		})
	}
}

// expect asks with a new payload, and looks what has become of job first.
func (k *keyScene) expect(first int64, bulk bool, outcome string) {
	k.t.Helper()
	answer := k.ask(bulk, 2)
	created := outcome == "created"
	if string(answer.Outcome) != outcome || answer.Created != created || (answer.ID == first) == created {
		k.t.Errorf("%s: %+v, want %s beside job %d", k.queue, answer, outcome, first)
	}
	want := "1"
	if outcome == "noted" {
		want = "2"
	}
	if status, err := k.s.JobStatus(k.t.Context(), first); err != nil || string(status.Payload) != want {
		k.t.Errorf("%s: the payload is %s, %v; want %s", k.queue, status.Payload, err, want)
	}
	if again := k.ask(!bulk, 3); created && again.ID != answer.ID || again.Created {
		k.t.Errorf("%s: asked again, %+v; want job %d", k.queue, again, answer.ID)
	}
}

// C79: what a request is answered at several moments of a job's life.
func TestC79NoWindow(t *testing.T) {
	t.Parallel()
	rows := documented(t, "at | the job")
	if states := []string{rows[0][1], rows[1][1], rows[2][1]}; !slices.Equal(states, []string{"ready", "running", "dead"}) {
		t.Fatalf("the moments in docs/keys.md are %q", states)
	}
	db := testdb.New(t)
	d := &deduper{t: t, db: db, s: store.New(db.Conn(t)), worker: store.NewWorkerID()}
	for i, policy := range policies {
		k := &keyScene{deduper: d, queue: string(policy), policy: policy}
		k.ask(false, 1)
		ask := func(row int) {
			if answer := k.ask(false, 10+row); string(answer.Outcome) != rows[row][2+i] {
				t.Errorf("%s, %s: %+v; docs/keys.md says %s", policy, rows[row][0], answer, rows[row][2+i])
			}
		}
		ask(0)
		ask(0)
		job := k.take()
		ask(1)
		k.finish(job, store.Dead, 0)
		ask(2)
	}
}

// C77: while a job runs, the newest of what is asked for meanwhile waits.
func TestC77OneRunsAndOneWaits(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	d := &deduper{t: t, db: db, s: store.New(db.Conn(t)), worker: store.NewWorkerID()}
	for _, lane := range []string{"", "lane"} {
		job := func(version int) store.NewJob {
			return store.NewJob{Kind: "k", OrderingKey: lane, DedupeKey: "key", Dedupe: store.DedupeOneMore, Payload: version}
		}
		first, err := d.s.Enqueue(t.Context(), job(1))
		if err != nil {
			t.Fatal(err)
		}
		running := d.claim()
		if running.ID != first.ID {
			t.Fatalf("job %d runs, want %d", running.ID, first.ID)
		}
		var waits int64
		for version := 2; version <= 4; version++ {
			answer, err := d.s.Enqueue(t.Context(), job(version))
			if err != nil || answer.Created != (version == 2) || version > 2 && answer.ID != waits {
				t.Errorf("version %d: %+v, %v", version, answer, err)
			}
			waits = answer.ID
		}
		if n := testdb.Value[int](t, db, "select count(*) from lockstep.job"); n != 2 {
			t.Errorf("%d jobs are there, want 2", n)
		}
		claimed, err := d.s.Claim(t.Context(), store.ClaimArgs{Worker: d.worker, Queue: "default", Kinds: []string{"k"}, Max: 10, Lease: time.Minute})
		if err != nil || len(claimed.Jobs) != 0 {
			t.Errorf("claimed %+v, %v, while the other runs", claimed.Jobs, err)
		}
		d.finish(running, store.Completed, 0)
		last := d.claim()
		if last.ID != waits || string(last.Payload) != "4" {
			t.Errorf("then ran job %d with %s, want job %d with 4", last.ID, last.Payload, waits)
		}
		d.finish(last, store.Completed, 0)
	}
}

// C76, policy one_more: two jobs of a key go through every transition side by
// side; the other jobs around do not notice.
func TestC76TwoThatMeet(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	k := &keyScene{
		deduper: &deduper{t: t, db: db, s: store.New(db.Conn(t)), worker: store.NewWorkerID()},
		queue:   "default", policy: store.DedupeOneMore,
	}
	db.Exec(t, "insert into lockstep.job (kind, dedupe_key) select 'other', i from generate_series(1, 1000) i")
	first := k.ask(false, 1)
	job := k.take()
	second := k.ask(false, 2)

	k.finish(job, store.Failed, time.Hour) // a retry
	db.Exec(t, "update lockstep.job set run_at = clock_timestamp() where id = $1", first.ID)
	if moved, err := k.s.Due(t.Context(), 10); err != nil || moved.Due != 1 {
		t.Fatal(moved, err)
	}
	k.takeOf(first.ID) // lost by its worker
	db.Exec(t, "update lockstep.job set lease_until = clock_timestamp() where id = $1", first.ID)
	k.finish(k.takeOf(first.ID), store.Dead, 0)
	k.expectReplay(first.ID, store.ReplayDuplicate)
	job = k.takeOf(second.ID) // promoted
	third := k.ask(false, 3)  // in the seat that the dead one had
	k.expectReplay(first.ID, store.ReplayDuplicate)
	k.finish(job, store.Completed, 0)
	k.finish(k.takeOf(third.ID), store.Completed, 0)
	k.expectReplay(first.ID, store.Replayed)
	fourth := k.ask(false, 4)
	db.Exec(t, "select lockstep.set_queue('default', on_dead => 'block')")
	k.finish(k.takeOf(first.ID), store.Dead, 0)
	if answer := k.ask(false, 5); answer.ID != fourth.ID {
		t.Errorf("behind a dead head: %+v, want job %d", answer, fourth.ID)
	}
	if done, err := k.s.UnblockLane(t.Context(), store.Lane{Queue: "default", OrderingKey: "lane"}); err != nil || !done {
		t.Fatal(done, err)
	}
	job = k.takeOf(fourth.ID)
	if string(job.Payload) != "5" {
		t.Errorf("the job ran %s, want the newest payload", job.Payload)
	}
	k.expectReplay(first.ID, store.ReplayDuplicate)
	k.finish(job, store.Released, 0)
	k.takeOf(fourth.ID)
	if n := testdb.Value[int](t, db, "select count(*) from lockstep.job where kind = 'other' and stage = 'r'"); n != 1000 {
		t.Errorf("%d of 1000 other jobs are ready", n)
	}
}

func (k *keyScene) takeOf(id int64) store.Job {
	k.t.Helper()
	job := k.take()
	if job.ID != id {
		k.t.Fatalf("job %d was claimed, want %d", job.ID, id)
	}
	return job
}
