package puppet

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/dispatcher"
)

// Config is a worker process: what it is called and what it works on. Times
// that are zero have the dispatcher's defaults, but Poll.
type Config struct {
	// Name is what scripts and the journal call it.
	Name string

	// Kinds are handled by plain handlers, TxKinds by transactional ones, which
	// insert a row into the table effect before they do as their script says.
	Kinds, TxKinds []string

	// Concurrency is how many jobs it runs at a time. Zero: 10.
	Concurrency int

	Lease   time.Duration
	Timeout time.Duration // of plain handlers; zero: none
	Grace   time.Duration // see dispatcher.Config.ShutdownGrace

	// Poll is the fallback poll. Zero: 10 min, so that what starts promptly
	// did not start by it.
	Poll time.Duration

	// HeartbeatPort is the port to which heartbeats alone connect: a proxy's,
	// which can cut them. Zero: the database's.
	HeartbeatPort int

	// URL is the database. Scene.Start fills it in.
	URL string
}

// args are what the process is started with.
func (c Config) args() []string {
	encoded, _ := json.Marshal(c) // can't fail: strings and numbers
	return []string{c.Name, string(encoded)}
}

func configFrom(args []string) (c Config, err error) {
	err = json.Unmarshal([]byte(args[1]), &c)
	if c.Poll == 0 {
		c.Poll = 10 * time.Minute
	}
	return c, err
}

// pool is what the dispatcher gets. It opens no connections in it, but takes
// over how they are made.
func (c Config) pool(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = c.Name
	config.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
		if c.HeartbeatPort != 0 && strings.HasSuffix(conn.RuntimeParams["application_name"], "heartbeat") {
			conn.Port = uint16(c.HeartbeatPort)
		}
		return nil
	}
	return pgxpool.NewWithConfig(ctx, config)
}

func (c Config) dispatcher(onEvent func(dispatcher.Event)) dispatcher.Config {
	return dispatcher.Config{
		Queues:        map[string]dispatcher.Queue{"default": {Concurrency: c.Concurrency}},
		Name:          c.Name,
		Lease:         c.Lease,
		Poll:          c.Poll,
		ShutdownGrace: c.Grace,
		OnEvent:       onEvent,
	}
}
