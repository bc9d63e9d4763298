// Package store is the Go face of the SQL functions in a Lockstep schema: one method per function.
//
// State changes happen in SQL only, so that every language gets the same
// promises; this package types the arguments, cleans what could make a write
// fail, and maps our SQLSTATEs to sentinels.
//
// New takes a pool, a connection, or the caller's own transaction:
//
//	_, err := store.New(tx).Enqueue(ctx, store.NewJob{Kind: "invoice.sync", OrderingKey: account, Payload: inv})
//
// In a transaction the job exists if and only if the transaction commits.
package store
