// Package faults strikes a queue at work with everything that breaks servers,
// networks and processes, in an order drawn from a seed, and then has a checker
// of its own say what became of each job. docs/faults.md tells how to run it and
// how it judges.
//
// Producers and workers are real processes. What they do they tell a witness,
// which lives in the test's own process and so outside of whatever is struck:
// what a transaction contains before its COMMIT is sent, whether that was
// answered, when a handler starts and ends and under which fence. The witness is
// also the system outside in which handlers leave their effects, and which refuses a
// stale fence. The checker reads the witness's records and, at the end, what the
// database has on record.
//
// The package has tests only.
package faults
