// Package replay has tests of replays of many dead letters: real worker
// processes drive them, one of them is killed, and the rate and the order of
// what goes back are judged by what the database recorded and what handlers
// wrote down.
package replay
