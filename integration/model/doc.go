// Package model compares the SQL of the queue with a small model of it in Go,
// step by step.
//
// pgregory.net/rapid draws a sequence of steps: what producers, workers, people
// and other programs do, in transactions of which several may be open, one step
// at a time. After each step the model and the database agree about the answer,
// the state of every job, the head of every lane, the order of those that wait
// and that of the ready line. No step waits for the clock: jobs fall due and
// leases end because the test says so.
//
// A failing run prints its seed, and the shortest sequence of steps found that
// fails in the same way. More and longer sequences:
//
//	go test ./integration/model -rapid.checks=5000 -rapid.steps=80
//
// What only happens at the same time, integration/protocol and
// integration/order see.
package model
