// Package poolers runs Lockstep through PgBouncer in transaction mode, where
// each transaction may have another session.
package poolers
