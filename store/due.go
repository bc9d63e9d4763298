package store

import (
	"context"
	"time"
)

// Moved is what one pass of Due did.
type Moved struct {
	Due     int // jobs that fell due and joined their lane or the ready line
	Retired int // settled jobs whose lane moved on
	// Replayed counts dead letters that went back, at the rate of their replay.
	Replayed int
	// Remaining counts what is still due or settled, up to 200 of each: beyond
	// the limit, or left for a moment because another transaction is at its lane.
	Remaining int
	// DueAt is when to call again: the next due time, or the next step of a
	// replay; zero means none. LookedAt is the same clock.
	DueAt, LookedAt time.Time
}

// Due lets up to limit jobs, at most 200 a call, that have fallen due run, and
// lets lanes go on whose head is settled, and makes the next step of replays. Any
// dispatcher may call it at any time.
func (s *Store) Due(ctx context.Context, limit int) (Moved, error) {
	var m Moved
	var due *time.Time
	err := s.row(ctx, `select due, retired, remaining, due_at, looked_at, replayed from @schema@.due(max => $1)`,
		[]any{limit}, []any{&m.Due, &m.Retired, &m.Remaining, &due, &m.LookedAt, &m.Replayed})
	m.DueAt = orZero(due)
	return m, err
}
