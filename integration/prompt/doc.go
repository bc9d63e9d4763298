// Package prompt holds the scenarios of the promise that a job starts at once
// when it may run, whatever made it so: an insert, a due time, the end of the
// job before it, a release, a retry, a lease's end, or the listener's return.
//
// The package has tests only. Worker processes have a fallback poll of ten
// minutes, so that nothing here starts by it.
package prompt
