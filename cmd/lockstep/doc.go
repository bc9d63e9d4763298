// Command lockstep prepares a database for Lockstep, enqueues and steers jobs from
// the command line, deals with dead letters, verifies what a queue recorded, and
// demonstrates and proves the queue on this machine.
//
//	lockstep migrate up|status|down
//	lockstep enqueue --kind email.send --payload '{"to": "a@example.org"}'
//	lockstep enqueue --file jobs.ndjson
//	lockstep status 7
//	lockstep cancel 7 8
//	lockstep retry 7
//	lockstep reschedule 7 --delay 1h
//	lockstep priority 7 --to 9
//	lockstep pause --tenant acme --reason "moving house"
//	lockstep resume --tenant acme
//	lockstep pauses
//	lockstep dead list --error '%timeout%'
//	lockstep dead replay --kind email.send --rate 20
//	lockstep lanes blocked
//	lockstep grant worker app_worker
//	lockstep verify
//	lockstep verify --ids enqueued.txt
//	lockstep adopt
//	lockstep demo
//	lockstep version
//
// The database is --database-url, --database-url-file, LOCKSTEP_DATABASE_URL,
// or else the PG* variables and defaults of libpq, in that order. A password in
// --database-url, or --listen-database-url, is taken out of the process list as
// soon as the process runs.
//
// Results go to standard output; the log, progress and errors to standard
// error. The exit code is 0 when everything was done, 1 after a failure or with
// a finding of verify, 2 for wrong usage, 3 when a job was refused, 4 when the
// database could not be reached, 5 when handlers were cut off at the end, and 130
// when a signal ended it.
package main
