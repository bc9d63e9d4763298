// Package dispatcher claims jobs, runs their handlers and records what came of them.
//
//	d, err := dispatcher.New(pool, dispatcher.Config{})
//	dispatcher.Handle(d, "invoice.send", func(ctx context.Context, job dispatcher.Job[Invoice]) error { … })
//	err = d.Run(ctx)
//
// # Outcomes
//
// What a handler returns is the outcome of the attempt:
//
//	nil                     completed, with the result given to Job.SetResult
//	backoff.Permanent(err)  dead at once (package github.com/cenkalti/backoff/v4)
//	RetryAfter(d, err)      failed; again after d
//	Snooze(d)               not now; again after d, the attempt is not used up
//	any other error         failed; again after the queue's backoff, or dead after the last attempt
//	panic, Goexit           failed, with the stack
//
// An error returned after the handler's context has ended counts by the
// context's cause: ErrTimeout failed, ErrCancelled cancelled, ErrShutdown and
// ErrLeaseLost given back without using up the attempt.
//
// # At least once, one at a time
//
// A handler runs at least once per job. It runs again if its worker dies, loses
// its lease, or dies before the outcome is recorded. So either its effects can be
// repeated, or they are in this database and it is a transactional handler
// (HandleTx), or it hands its fence (Job.Fence) to a system that refuses older
// ones.
//
// A claim holds for a lease, which heartbeats renew. Where they fail, the
// handler's context ends before the lease does: what the handler does after that
// is at its own risk, as another worker may have the job. LeaseEnd tells how
// long it is certain to have.
//
// # What runs when
//
// Jobs are looked for when a signal comes, when a job falls due or a lease may
// end, when the listener has connected, and when nothing was looked for in
// Config.Poll. They are claimed only for slots that are free. A job that
// finishes hands its slot to the next of its lane, if no other job is ready.
//
// While the database is away, handlers go on as long as their leases last.
// Outcomes wait until they can be recorded, their leases are kept as far as
// that is possible, and their number holds up new claims.
package dispatcher
