// Package producers proves what the enqueuing side is promised: producers of
// one lane never deadlock and never hold others up, whatever they forge,
// leave behind or leave in doubt; and bad input is refused by name with
// nothing half-written.
//
// LOCKSTEP_LONG=60s gives the tests that run by the clock that time, and the others
// their full size.
package producers
