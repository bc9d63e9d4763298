// Package locks takes the advisory locks of Lockstep's schema: the run lock of
// a lane, which a transactional handler holds while it works, and named
// mutexes, for upkeep and for whoever else needs one.
//
// Which number a lock has is computed by SQL functions of the schema, so that
// every program in every language asks for the same one. Numbers are 64-bit
// hashes: two names may share one, which costs somebody a refusal now and then.
//
// Every lock is tried for, never queued for, and belongs to a transaction:
// COMMIT, ROLLBACK or the end of the connection release it, whatever happens to
// the program, also through a transaction-mode pooler.
//
// # Twice in one transaction
//
// PostgreSQL's advisory locks are re-entrant: the transaction that holds a lock
// gets it again whenever it asks. So a lock keeps transactions apart, not the
// goroutines or steps within one. A lock taken after a savepoint goes with a
// rollback to that savepoint, and one taken before it stays.
package locks
