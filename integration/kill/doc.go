// Package kill holds the scenarios of workers and servers that die, freeze or
// are asked to end: whose jobs run again, when, and what their late words
// change.
//
// The package has tests only. Workers are real processes.
package kill
