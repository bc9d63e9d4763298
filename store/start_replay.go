package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// NewReplay is a replay of many dead letters, to be started.
type NewReplay struct {
	// Rate is how many letters go back in a second, above 0 to 1000, by all
	// processes together. Zero: 10.
	Rate float64
	// IDs are the letters that are meant, at most 1000; nil: all that Filter
	// holds for. With both, those of them that Filter holds for.
	IDs    []int64
	Filter DeadFilter
	// StartedBy is for people, at most 200 bytes; "" is the session's user.
	StartedBy string
}

const startReplaySQL = `select @schema@.start_replay(queue => $1, kind => $2, tenant => $3, ordering_key => $4, error => $5,
	died_from => $6, died_before => $7, rate => coalesce(nullif($8::float8, 0), 10), ids => $9, started_by => $10)`

// StartReplay has the dead letters that are there now replayed at a rate, those
// of one lane in their original order, and returns the replay's id. It is a row:
// it goes on while anybody calls Due at the times that Due names, as every
// Dispatcher does, whatever process started it or stops.
func (s *Store) StartReplay(ctx context.Context, r NewReplay) (id int64, err error) {
	if err := r.Filter.check(); err != nil {
		return 0, err
	}
	if err := checkTexts([]text{{"started_by", r.StartedBy}}...); err != nil {
		return 0, err
	}
	args := append(r.Filter.args(), r.Rate, r.IDs, optional(r.StartedBy))
	return id, s.row(ctx, startReplaySQL, args, []any{&id})
}

// CancelReplay ends a replay; the letters it has not come to stay. False if it
// was over already. ErrNotFound, ErrBusy.
func (s *Store) CancelReplay(ctx context.Context, id int64) (bool, error) {
	answer, err := s.answer(ctx, `select @schema@.cancel_replay(id => $1)`, id)
	return answer == "cancelled", err
}

// ReplayRun is a replay of many dead letters.
type ReplayRun struct {
	ID       int64   `json:"id"`
	State    string  `json:"state"`    // running, done or cancelled
	Rate     float64 `json:"rate"`     // letters a second
	Replayed int64   `json:"replayed"` // letters that went back
	// Kept are letters that stay: an unfinished job has their dedupe key, or a
	// limit is too low for them by now.
	Kept      int64      `json:"kept"`
	Remaining int64      `json:"remaining"` // letters it has still to come to, counted now
	StartedBy string     `json:"started_by"`
	StartedAt time.Time  `json:"started_at"`
	SteppedAt time.Time  `json:"stepped_at,omitzero"` // its latest step; zero: none yet
	EndedAt   time.Time  `json:"ended_at,omitzero"`   // zero: it runs
	IDs       []int64    `json:"ids,omitempty"`
	Filter    DeadFilter `json:"filter"`
}

const replaysSQL = `select id, state, rate, replayed, kept, remaining, started_by, started_at, stepped_at, ended_at,
	ids, coalesce(queue, ''), coalesce(kind, ''), coalesce(tenant, ''), coalesce(ordering_key, ''), coalesce(error, ''), died_from, died_before
	from @schema@.replays order by id desc limit 1000`

// Replays lists replays, the latest first: those that run, and those that are
// over for as long as history is kept. It counts the letters that are left for
// each that runs, which reads them.
func (s *Store) Replays(ctx context.Context) ([]ReplayRun, error) {
	return collect(ctx, s, replaysSQL, func(row pgx.CollectableRow) (ReplayRun, error) {
		var (
			r                         ReplayRun
			f                         = &r.Filter
			stepped, ended, from, til *time.Time
		)
		err := row.Scan(&r.ID, &r.State, &r.Rate, &r.Replayed, &r.Kept, &r.Remaining, &r.StartedBy, &r.StartedAt, &stepped, &ended,
			&r.IDs, &f.Queue, &f.Kind, &f.Tenant, &f.OrderingKey, &f.Error, &from, &til)
		r.SteppedAt, r.EndedAt, f.DiedFrom, f.DiedBefore = orZero(stepped), orZero(ended), orZero(from), orZero(til)
		return r, err
	})
}
