package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A bulk call goes in parts: each at most so many jobs and about so many
// bytes of JSON, far below what jsonb can hold (256 MiB).
const (
	partJobs  = 10_000
	partBytes = 16 << 20
)

// EnqueueMany adds jobs by set, answering in their order, which is also their
// order within a lane. Every job is checked before the first is written; a
// *FieldError names the first bad one by its ordinal.
//
// Two calls with the same keys, in whatever order, can't deadlock; nor can two
// transactions of one call each, up to 10,000 jobs.
//
// In a transaction it is all or nothing. On a pool or connection it commits
// in parts of 10,000 jobs or 16 MiB: a failure midway leaves the parts before
// it, and the answer holds just those, beside the error.
func (s *Store) EnqueueMany(ctx context.Context, jobs []NewJob) ([]Enqueued, error) {
	wires := make([]json.RawMessage, len(jobs))
	for i, job := range jobs {
		w, err := job.wire()
		if err != nil {
			return nil, at(err, i+1)
		}
		if wires[i], err = json.Marshal(w); err != nil {
			return nil, err
		}
	}
	if err := s.checkMany(ctx, wires); err != nil {
		return nil, err
	}
	all := make([]Enqueued, 0, len(jobs))
	for len(wires) > 0 {
		n := partLen(wires)
		part, err := s.enqueuePart(ctx, wires[:n])
		if err != nil {
			return all, at(err, len(all))
		}
		all, wires = append(all, part...), wires[n:]
	}
	return all, nil
}

// checkMany lets SQL check every part before the first is written, so that a
// bad job in a later part is found while nothing stands. One part alone is
// checked by its own insert.
func (s *Store) checkMany(ctx context.Context, wires []json.RawMessage) error {
	if partLen(wires) == len(wires) {
		return nil
	}
	for done := 0; done < len(wires); {
		n := partLen(wires[done:])
		doc, err := json.Marshal(wires[done : done+n])
		if err != nil {
			return err
		}
		if _, err := s.db.Exec(ctx, s.sql(`select @schema@.check_jobs($1::jsonb)`), string(doc)); err != nil {
			return at(ordinal(wrap(err)), done)
		}
		done += n
	}
	return nil
}

func (s *Store) enqueuePart(ctx context.Context, wires []json.RawMessage) ([]Enqueued, error) {
	doc, err := json.Marshal(wires)
	if err != nil {
		return nil, err
	}
	rows, err := collect(ctx, s, `select id, created, outcome from @schema@.enqueue_many(jobs => $1::jsonb) order by ordinal`,
		pgx.RowToStructByPos[Enqueued], string(doc))
	return rows, ordinal(err)
}

func partLen(wires []json.RawMessage) int {
	size := 0
	for i, w := range wires {
		size += len(w)
		if i == partJobs || i > 0 && size > partBytes {
			return i
		}
	}
	return len(wires)
}

// ordinal reads which job of a bulk call SQL refused from the error's detail.
func ordinal(err error) error {
	var field *FieldError
	if errors.As(err, &field) && field.cause != nil {
		_, _ = fmt.Sscanf(field.cause.Detail, "job %d", &field.Ordinal)
	}
	return err
}

// at moves the ordinal of a refused job by n places.
func at(err error, n int) error {
	var field *FieldError
	if errors.As(err, &field) {
		field.Ordinal += n
	}
	return err
}
