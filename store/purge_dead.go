package store

import (
	"context"
	"time"
)

// Purge says which dead letters PurgeDead forgets.
type Purge struct {
	OlderThan time.Duration // since they died; 0 to 100 years
	Queue     string        // "" is all
	Kind      string        // "" is all
	Limit     int           // at most so many, 1 to 5000; zero: 1000
}

// PurgeDead forgets dead letters by age, the oldest first; more says that there
// may be others: call again. One whose job blocks its lane is left to a person,
// and one that somebody else is at to the next purge.
func (s *Store) PurgeDead(ctx context.Context, p Purge) (purged int, more bool, err error) {
	if p.Limit == 0 {
		p.Limit = 1000
	}
	if err := checkTexts([]text{{"queue", p.Queue}, {"kind", p.Kind}}...); err != nil {
		return 0, false, err
	}
	err = s.row(ctx, `select purged, more from @schema@.purge_dead(older_than => $1, queue => $2, kind => $3, max => $4)`,
		[]any{p.OlderThan, optional(p.Queue), optional(p.Kind), p.Limit}, []any{&purged, &more})
	return purged, more, err
}
