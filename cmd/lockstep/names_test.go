package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// oddNames are legal as any name of a job: of its kind, queue, tenant, ordering
// key and dedupe key.
var oddNames = []string{"a/b", "/", "a.b", "a:b", "a b", " ", "Upper", "upper", "😀", "é", "e\u0301", "--kind", "a=b", `a"b'c\d`, "%s", "$1", "a/b.c:D 😀"}

// TestC111 has each name come by each way in: a plain INSERT, enqueue, Go, and the
// command line by flags and by a file. It is the same name everywhere: one lane,
// in which all are done by one handler, and one dedupe key.
func TestC111(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	pool, c := db.Pool(t), on(db)
	ran := make(chan string, 100*len(oddNames))
	for _, name := range oddNames {
		db.Exec(t, "insert into lockstep.job (kind, queue, tenant, ordering_key, dedupe_key) values ($1, $1, $1, $1, $1)", name)
		db.Exec(t, "select lockstep.enqueue($1, queue => $1, tenant => $1, ordering_key => $1)", name)
		job := store.NewJob{Kind: name, Queue: name, Tenant: name, OrderingKey: name, DedupeKey: name}
		found, err := store.New(pool).Enqueue(t.Context(), job)
		if err != nil || found.Created {
			t.Errorf("%q: a second job of the dedupe key: %+v, %v", name, found, err)
		}
		job.DedupeKey = ""
		if _, err := store.New(pool).Enqueue(t.Context(), job); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		c.run(t, "enqueue", "--kind="+name, "--queue="+name, "--tenant="+name, "--ordering-key="+name).want(t, exitOK)
		line, err := json.Marshal(map[string]string{"kind": name, "queue": name, "tenant": name, "ordering_key": name})
		if err != nil {
			t.Fatal(err)
		}
		file := c
		file.stdin = string(line)
		file.run(t, "enqueue", "--file", "-").want(t, exitOK)
	}
	for _, name := range oddNames {
		n := testdb.Value[int](t, db, "select count(*) from lockstep.jobs where kind = $1 and queue = $1 and tenant = $1 and ordering_key = $1", name)
		if n != 5 {
			t.Errorf("%q: %d jobs have the name, want 5", name, n)
		}
		lane := testdb.Value[string](t, db, "select coalesce(string_agg(head_state || ' ' || waiting, ','), '') from lockstep.lanes where ordering_key = $1", name)
		if lane != "ready 4" {
			t.Errorf("%q: its lanes are %q", name, lane)
		}
	}
	workOff(t, db, ran)
	if len(ran) != 5*len(oddNames) || jobCount(t, db) != 0 {
		t.Errorf("%d jobs ran, want %d; %d are left", len(ran), 5*len(oddNames), jobCount(t, db))
	}
}

// workOff runs all jobs, each by the handler of its name.
func workOff(t *testing.T, db *testdb.DB, ran chan<- string) {
	t.Helper()
	queues := make(map[string]dispatcher.Queue)
	for _, name := range oddNames {
		queues[name] = dispatcher.Queue{Concurrency: 1}
	}
	d, err := dispatcher.New(db.Pool(t), dispatcher.Config{Queues: queues, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range oddNames {
		dispatcher.Handle(d, name, func(_ context.Context, job dispatcher.Job[json.RawMessage]) error {
			if job.Kind != name || job.Queue != name || job.Tenant != name || job.OrderingKey != name {
				return fmt.Errorf("%q got %q of %q, tenant %q, key %q", name, job.Kind, job.Queue, job.Tenant, job.OrderingKey)
			}
			ran <- name
			return nil
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.RunUntilIdle(ctx); err != nil {
		t.Error(err)
	}
}
