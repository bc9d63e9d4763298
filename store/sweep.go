package store

import "context"

// Swept is what one go of Sweep did.
type Swept struct {
	Placed   int // stray jobs put into their lane
	Promoted int // lanes without a head that got one
	Refused  int // what was left because another transaction was at it; for one queue, 1 if another sweep is under way
	Unparked int // jobs returned that were parked though no pause covers them
	// More says the pass is not over: call again with Cursor.
	More   bool
	Cursor []string // queue, tenant, ordering key of the last lane looked at; nil = from the beginning
}

// Sweep repairs lanes that lost their head (a row deleted by hand, a producer
// under REPEATABLE READ), lets lanes go on that are blocked against their queue's
// policy, places jobs that their triggers did not, and returns parked ones that
// no pause covers. It looks at up to limit lanes after cursor, of one queue or,
// for "", of all. One sweep runs at a time; the others answer at once: for all,
// that nothing is to do; for one queue, which the sweep under way may have
// passed, that it was refused.
func (s *Store) Sweep(ctx context.Context, limit int, queue string, cursor []string) (Swept, error) {
	var w Swept
	var only *string
	if queue != "" {
		only = &queue
	}
	err := s.row(ctx, `select placed, promoted, refused, more, cursor, unparked from @schema@.sweep(max => $1, queue => $2, after => $3)`,
		[]any{limit, only, cursor}, []any{&w.Placed, &w.Promoted, &w.Refused, &w.More, &w.Cursor, &w.Unparked})
	return w, err
}
