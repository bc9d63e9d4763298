// Package bench measures throughput, latency and memory against a private
// PostgreSQL server that keeps its commits (fsync on) on the same machine:
//
//	make bench
//
// Each benchmark prints its set-up. The machine matters: compare figures of
// one run with each other.
package bench
