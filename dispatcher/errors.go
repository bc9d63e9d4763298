package dispatcher

import "errors"

// Why a handler's context ended before the handler did: context.Cause(ctx) is
// one of these, or matches one with errors.Is.
var (
	// ErrLeaseLost: the lease could not be renewed in time, or the database
	// says that the job is somebody else's by now. Whatever the handler still
	// does, its outcome will change nothing if another worker has the job.
	ErrLeaseLost = errors.New("lockstep: lease lost")
	// ErrCancelled: somebody asked for the job to be cancelled. A handler that
	// then returns an error ends the job as cancelled, one that returns nil
	// completes it.
	ErrCancelled = errors.New("lockstep: job cancelled")
	// ErrTimeout: the handler ran longer than HandlerConfig.Timeout.
	ErrTimeout = errors.New("lockstep: handler timed out")
	// ErrShutdown: the dispatcher stops, and its grace is over. A handler that
	// then returns an error gives the job back; the attempt is not used up.
	ErrShutdown = errors.New("lockstep: dispatcher shutting down")
)

// errRunning: Run or RunUntilIdle was called before the last one returned.
var errRunning = errors.New("dispatcher: already running")
