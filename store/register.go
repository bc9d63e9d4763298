package store

import (
	"context"
	"time"
)

// Registration tells the fleet of a dispatcher. Registering again is its sign
// of life; one not heard of for three leases counts as gone.
type Registration struct {
	Worker WorkerID
	Name   string // for people: host, service; up to 200 bytes
	Queues []string
	Kinds  []string
	Lease  time.Duration
}

// Registered is what a dispatcher needs to know of its schema.
type Registered struct {
	// Channel is where signals arrive: LISTEN to it, quoted.
	Channel string
	// QueueHashes are what signals call the queues, in their order.
	QueueHashes []string
}

const registerSQL = `select channel, queue_hashes from @schema@.register(
	dispatcher => $1, name => $2, queues => $3, kinds => $4, lease => $5)`

// Register must precede the dispatcher's first claim: others plan their next
// look by the shortest lease they know of.
func (s *Store) Register(ctx context.Context, r Registration) (Registered, error) {
	var a Registered
	args := []any{r.Worker, r.Name, r.Queues, r.Kinds, r.Lease}
	return a, s.row(ctx, registerSQL, args, []any{&a.Channel, &a.QueueHashes})
}

// Deregister takes a dispatcher out of the fleet after its last finish.
func (s *Store) Deregister(ctx context.Context, worker WorkerID) error {
	return s.do(ctx, func(db DB) error {
		_, err := db.Exec(ctx, s.sql(`select @schema@.deregister(dispatcher => $1)`), worker)
		return err
	})
}

// Channel is the schema's NOTIFY channel, for listeners that register nothing.
func (s *Store) Channel(ctx context.Context) (string, error) {
	var c string
	return c, s.row(ctx, `select @schema@.channel()`, nil, []any{&c})
}
