package locks

import "github.com/jackc/pgx/v5"

// DefaultSchema is the schema that New uses for an empty name.
const DefaultSchema = "lockstep"

// Locks takes the locks of one schema. It keeps no locks itself, only counts;
// all methods may be called from any goroutine.
type Locks struct {
	tryRun   string
	tryMutex string

	run   counter
	mutex counter
}

// New returns the locks of the schema that Lockstep was migrated into; "" means
// DefaultSchema. Nothing is looked up until a lock is tried.
func New(schema string) *Locks {
	if schema == "" {
		schema = DefaultSchema
	}
	s := pgx.Identifier{schema}.Sanitize()
	return &Locks{
		tryRun:   "select pg_catalog.pg_try_advisory_xact_lock(" + s + ".run_lock($1::text, $2::text, $3::text, $4::bigint))",
		tryMutex: "select pg_catalog.pg_try_advisory_xact_lock(" + s + ".mutex_lock($1::text))",
	}
}
