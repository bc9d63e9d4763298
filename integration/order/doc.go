// Package order shows, by oracles of its own, that lanes are worked on one at a
// time, in commit order, and in turns.
//
// TestOrder lets producers, cancels, deletions by hand and failing handlers
// loose on a few lanes. What ran is told by a log that the handlers themselves
// write, over connections of their own, outside the schema; what should have
// run is told by PostgreSQL's commit timestamps of the producers' transactions.
// Nothing that the schema says about itself is believed. To repeat it at full
// size:
//
//	go test ./integration/order -run TestOrder -order.runs=20
package order
