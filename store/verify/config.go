package verify

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

// DB is what Run reads from: a *pgxpool.Pool or a *pgx.Conn. Its role has to be
// able to read the tables of the schema.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Config says what to verify, and how. The zero value verifies everything in
// the default schema.
type Config struct {
	// Schema is where the migrations put Lockstep. "": store.DefaultSchema.
	Schema string

	// IDs are the job ids that a producer knows it has committed, one a line:
	// each has to be on record. What follows the id on its line, after a blank
	// or a tab, is not read, nor are empty lines. Nil: none are looked for.
	IDs io.Reader

	// Limit is how many findings of each class the report keeps; the others are
	// only counted. Zero: 100.
	Limit int

	// Patience is how long something that repairs itself in a queue at work,
	// like a lane without a head, has to last to be a finding: it is looked at
	// twice, this far apart. Nothing is waited for where nothing is suspect.
	// Zero: 40 s, longer than a dispatcher takes to sweep. Negative: one look
	// is enough.
	Patience time.Duration

	// Overdue is how long work that is due, or a lease that has ended, may stand
	// there before it is a finding. Zero: 5 min.
	Overdue time.Duration

	// StatementTimeout bounds every single statement; reading the history is
	// one. Zero: as it is set for the role or database. Negative: none.
	StatementTimeout time.Duration

	// OnProgress is told how far the work is, at the beginning of every step and
	// every few thousand rows, from the goroutine that reads. Nil: nobody is.
	OnProgress func(Progress)
}

// Progress is how far Run has come.
type Progress struct {
	// Step says in a few words what is being done.
	Step string
	// Rows read in this step so far.
	Rows int64
	// Total is about how many there will be; 0 where nobody knows.
	Total int64
}

// progressRows is after how many rows progress is told.
const progressRows = 4096

func (c Config) withDefaults() Config {
	c.Schema = cmp.Or(c.Schema, store.DefaultSchema)
	c.Limit = cmp.Or(c.Limit, 100)
	c.Patience = cmp.Or(c.Patience, 40*time.Second)
	c.Overdue = cmp.Or(c.Overdue, 5*time.Minute)
	if c.OnProgress == nil {
		c.OnProgress = func(Progress) {}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Limit < 0:
		return fmt.Errorf("verify: Limit is %d; it can't be negative", c.Limit)
	case c.Overdue < 0:
		return fmt.Errorf("verify: Overdue is %v; it can't be negative", c.Overdue)
	}
	return nil
}
