package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrBroken is returned when the proof found that a promise was not kept; the
// report says which.
var ErrBroken = errors.New("the demo found a broken promise")

// Run runs the demo: it writes a report to config.Out and returns ErrBroken if
// the queue failed it. It leaves nothing behind, whether it comes to its end,
// fails, or is stopped by the context.
func Run(ctx context.Context, config Config) (err error) {
	config = config.withDefaults()
	db, err := openDatabase(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close(ctx)) }()
	fmt.Fprintf(config.Out, "running in %s\n", db.place())
	s, err := newShow(ctx, config, db)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.play(ctx); err != nil {
		return err
	}
	return s.judge(ctx)
}

// show is one run of the demo.
type show struct {
	config   Config
	db       *database
	book     *logbook
	list     *sentList
	tracker  *tracker
	pools    []*pgxpool.Pool
	progress *progress
	drain    drain
}

// drain is how the burst went.
type drain struct {
	jobs int
	took time.Duration
}

func newShow(ctx context.Context, config Config, db *database) (*show, error) {
	s := &show{config: config, db: db, list: &sentList{}, tracker: newTracker()}
	s.progress = newProgress(config, s.list, s.tracker)
	pool, err := s.pool(ctx, "handlers' log", 16)
	if err != nil {
		return nil, err
	}
	if s.book, err = newLogbook(ctx, pool, db); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// pool opens a pool that close closes.
func (s *show) pool(ctx context.Context, name string, size int32) (*pgxpool.Pool, error) {
	pool, err := s.db.pool(ctx, name, size)
	if err == nil {
		s.pools = append(s.pools, pool)
	}
	return pool, err
}

func (s *show) close() {
	for _, pool := range s.pools {
		pool.Close()
	}
}
