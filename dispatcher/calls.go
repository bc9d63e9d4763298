package dispatcher

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

// callTimeout bounds every call that claims, finishes or does a duty: a socket
// that swallows it costs so much, and its connection.
const callTimeout = 8 * time.Second

// store is the store on one of our connections.
func (s *shift) store(db store.DB) *store.Store { return store.New(db).In(s.cfg.Schema) }

// control makes one call of a loop on a control connection. Once sent, it is not
// taken back when the dispatcher stops: its answer may be jobs that are claimed.
func (s *shift) control(loop Loop, fn func(context.Context, *store.Store) error) error {
	ctx, cancel := context.WithTimeoutCause(s.writes, s.callTimeout, errNoAnswer)
	defer cancel()
	err := s.conns.control.use(ctx, func(conn *pgx.Conn) error {
		return fn(ctx, s.store(conn))
	})
	if err == nil {
		s.worked.note(loop)
	}
	s.clogged(ctx, err)
	return err
}

func (s *shift) claim(args store.ClaimArgs) (c store.Claimed, err error) {
	err = s.control(LoopClaim, func(ctx context.Context, db *store.Store) (err error) {
		c, err = db.Claim(ctx, args)
		return err
	})
	return c, err
}

func (s *shift) finish(args store.FinishArgs) (answers map[int64]store.Finished, err error) {
	err = s.control(LoopFinish, func(ctx context.Context, db *store.Store) (err error) {
		answers, err = db.Finish(ctx, args)
		return err
	})
	return answers, err
}

// saw uses what a claim told besides its jobs.
func (s *shift) saw(c store.Claimed, sent time.Time) {
	s.clock.set(c.LookedAt, sent)
	if !c.DueAt.IsZero() {
		s.due.expect(sent.Add(c.DueAt.Sub(c.LookedAt)))
	}
	for _, k := range c.Stuck {
		s.endStuck(k)
	}
}

// trouble tells of a database that did not do what was asked, unless it was
// not to be waited for any more.
func (s *shift) trouble(ctx context.Context, step string, err error) {
	if ctx.Err() == nil {
		s.tell(Event{Type: Trouble, Reason: step, Err: err, again: s.said.again(step)})
	}
}

// repeatAfter is how soon the log tells again what goes on and on.
const repeatAfter = 10 * time.Second

// said remembers when the log was told what, so that it is not flooded while
// the database is away.
type said struct{ last sync.Map }

// again reports whether it was told a moment ago.
func (s *said) again(what string) bool {
	now := time.Now()
	last, known := s.last.LoadOrStore(what, now)
	if known && now.Sub(last.(time.Time)) < repeatAfter {
		return true
	}
	s.last.Store(what, now)
	return false
}
