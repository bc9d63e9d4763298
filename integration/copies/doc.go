// Package copies shows that a copy of a database does not run the jobs of the
// original before somebody says so.
package copies
