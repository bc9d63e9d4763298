package faults

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/integration/clockstep"
	"github.com/lockstep-pg/lockstep/store"
)

const (
	workers   = 3
	producers = 3
)

// stage is a queue at work, and what it takes to strike it.
type stage struct {
	*service
	t         testing.TB
	seed      uint64
	lease     time.Duration
	cluster   *cluster
	workers   []*actor
	producers []*actor

	impossible map[string]error // kinds that can't be struck here, and why

	unblocking sync.WaitGroup
	stop       context.CancelFunc // of the one who unblocks lanes
}

func newStage(t testing.TB, seed uint64, lease time.Duration) *stage {
	t.Helper()
	service, err := serve(newWitness(lease))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.close)
	s := &stage{service: service, t: t, seed: seed, lease: lease, cluster: newCluster(t, setUp), impossible: map[string]error{}}
	if s.cluster.disks.refused != nil {
		s.impossible["disk full"] = s.cluster.disks.refused
	}
	if err := clockstep.Step(0); err != nil {
		s.impossible["clock ahead"], s.impossible["clock back"] = err, err
	}
	for n := range workers {
		s.workers = append(s.workers, s.actor(workerRole, n))
	}
	for n := range producers {
		s.producers = append(s.producers, s.actor(producerRole, n))
	}
	for _, a := range append(s.workers, s.producers...) {
		a.process.Await(t, ready)
	}
	s.keepUnblocking()
	return s
}

// keepUnblocking is the person whom blocked lanes wait for.
func (s *stage) keepUnblocking() {
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	s.unblocking.Go(func() {
		for ctx.Err() == nil {
			_ = s.unblockAll(ctx) // the database may be away
			pause(ctx, 200*time.Millisecond)
		}
	})
	s.t.Cleanup(func() {
		s.stop()
		s.unblocking.Wait()
	})
}

func (s *stage) unblockAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := s.cluster.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(ctx, "select queue, coalesce(ordering_key, payload->>'marker'), ordering_key is null from lockstep.dead_job where blocking")
	if err != nil {
		return err
	}
	type blocked struct {
		Lane
		Keyless bool
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b blocked, err error) {
		return b, row.Scan(&b.Queue, &b.Key, &b.Keyless)
	})
	if err != nil {
		return err
	}
	for _, b := range all {
		if b.Keyless {
			continue
		}
		s.unblock(b.Lane)
		_, err := store.New(conn).UnblockLane(ctx, store.Lane{Queue: b.Queue, OrderingKey: b.Key})
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrState) {
			return err
		}
	}
	return nil
}

// drain has everything worked off, and everybody end. It gives up when nothing
// happens any more: the checker then finds what is stuck.
func (s *stage) drain() {
	s.t.Helper()
	for _, a := range s.producers {
		a.stop()
	}
	if err := s.cluster.whole(); err != nil {
		s.t.Fatal(err)
	}
	last, since := -1, time.Now()
	for !s.idle() && time.Since(since) < patience {
		if _, runs := s.progress(); runs != last {
			last, since = runs, time.Now()
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, a := range s.workers {
		a.stop()
	}
	s.stop()
	s.unblocking.Wait()
}

// idle tells whether no job is live.
func (s *stage) idle() (idle bool) {
	s.t.Helper()
	s.cluster.with(func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "select not exists (select from lockstep.job)").Scan(&idle)
	})
	return idle
}
