package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// suspects are findings that may be gone a moment later in a queue at work.
type suspects struct {
	limit int // of those kept of a class
	kept  []suspect
	seen  map[Class]int64
}

type suspect struct {
	key string // the same at the next look if it is the same thing
	Finding
}

// add notes a finding; key tells it from others of its class.
func (s *suspects) add(key string, f Finding) {
	s.seen[f.Class]++
	if s.seen[f.Class] <= int64(s.limit) {
		s.kept = append(s.kept, suspect{key: key, Finding: f})
	}
}

// look collects what seems to stand still.
func (r *run) look(ctx context.Context) (*suspects, error) {
	r.begin(0)
	found := &suspects{limit: r.config.Limit, seen: make(map[Class]int64)}
	err := r.snapshot(ctx, func(tx pgx.Tx) error {
		for _, find := range []func(context.Context, pgx.Tx, *suspects) error{r.headless, r.stuck, r.parked} {
			if err := find(ctx, tx, found); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// confirm looks again, and reports those suspects that are still there. Those
// that are too many to be kept are taken to be as many as there are now.
func (r *run) confirm(ctx context.Context, first *suspects) error {
	if len(first.kept) == 0 {
		return nil
	}
	still := first
	if r.config.Patience > 0 {
		if err := r.wait(ctx, r.config.Patience-time.Since(r.began)); err != nil {
			return err
		}
		second, err := r.look(ctx)
		if err != nil {
			return err
		}
		still = first.and(second)
	}
	for _, s := range still.kept {
		r.report.add(s.Finding)
	}
	for class, n := range still.seen {
		r.report.Totals[class] += max(0, n-int64(r.config.Limit))
	}
	return nil
}

// and are the suspects of a later look that were there at this one too.
func (s *suspects) and(later *suspects) *suspects {
	here := make(map[suspectKey]bool, len(s.kept))
	for _, old := range s.kept {
		here[old.id()] = true
	}
	both := &suspects{limit: s.limit, seen: make(map[Class]int64)}
	for _, now := range later.kept {
		if here[now.id()] {
			both.add(now.key, now.Finding)
		}
	}
	for class, n := range s.seen {
		if n > int64(s.limit) {
			both.seen[class] = later.seen[class]
		}
	}
	return both
}

type suspectKey struct {
	class Class
	key   string
}

func (s suspect) id() suspectKey { return suspectKey{s.Class, s.key} }

// wait waits between two looks.
func (r *run) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	name := r.step.Step
	r.step.Step = fmt.Sprintf("waiting %v for a second look at what may repair itself", d.Round(time.Second))
	r.begin(0)
	r.step.Step = name
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
