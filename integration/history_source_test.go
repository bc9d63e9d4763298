package integration

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pg/lockstep/store"
)

const (
	historyProducers = 8
	// The stream is let out a slice at a time, so that there is work left to
	// kill workers in: three slices a kill are enough.
	historySlices = 3 * historyKills
)

// source lets producers enqueue a history bit by bit.
type source struct {
	producers errgroup.Group
	gates     []chan struct{} // a producer each; a token lets out a slice
	released  int             // slices
	open      sync.Once
}

// startProducers starts the concurrent producers. They end with the test.
func startProducers(t *testing.T, url string, events []event) *source {
	s := &source{gates: make([]chan struct{}, historyProducers)}
	for i := range s.gates {
		s.gates[i] = make(chan struct{}, historySlices)
		mine := eventsOf(events, i, historyProducers)
		s.producers.Go(func() error { return produce(t.Context(), url, mine, s.gates[i]) })
	}
	t.Cleanup(func() { s.finish(t) })
	return s
}

// release lets each producer enqueue another slice.
func (s *source) release(t *testing.T) {
	t.Helper()
	if s.released++; s.released > historySlices {
		t.Fatal("the history came to its end before the last kill")
	}
	for _, gate := range s.gates {
		gate <- struct{}{} // there is room for all slices
	}
}

// finish lets out what is left and returns when all is enqueued.
func (s *source) finish(t *testing.T) {
	t.Helper()
	s.open.Do(func() {
		for _, gate := range s.gates {
			close(gate)
		}
	})
	if err := s.producers.Wait(); err != nil && t.Context().Err() == nil {
		t.Error(err)
	}
}

// produce enqueues events in order, in transactions of one to five.
func produce(ctx context.Context, url string, events []event, gate <-chan struct{}) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	slice := len(events)/historySlices + 1
	for len(events) > 0 {
		<-gate
		now := events[:min(slice, len(events))]
		events = events[len(now):]
		for len(now) > 0 {
			n := min(1+rand.IntN(5), len(now))
			if err := enqueue(ctx, conn, now[:n]); err != nil {
				return err
			}
			now = now[n:]
		}
	}
	return nil
}

func enqueue(ctx context.Context, conn *pgx.Conn, events []event) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, e := range events {
			job := store.NewJob{Kind: e.Kind, OrderingKey: e.OrderingKey, Payload: e.Payload}
			if _, err := store.New(tx).Enqueue(ctx, job); err != nil {
				return err
			}
		}
		return nil
	})
}
