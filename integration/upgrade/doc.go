// Package upgrade shows that a database that an earlier version made can be
// brought up to date, also while that version's program works on it, and that
// what comes of it is what a new installation has.
//
// The earlier version is testdata/core.tar.gz, which testdata/core.sh made: its
// schema and its program, without tests.
package upgrade
