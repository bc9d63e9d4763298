// Package integration holds scenarios over all packages, against real
// PostgreSQL servers and real processes. Its folders are a theme each; here
// stands the replay of a real event history.
package integration
