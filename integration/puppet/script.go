package puppet

import "time"

// Script is the payload of a job: what its handler does in each worker, by the
// worker's name, and under "" in all others. A worker that is not in it
// returns nil at once.
type Script map[string]Act

// Act is what a handler does.
type Act struct {
	Do   string        `json:"do"`
	For  time.Duration `json:"for,omitempty"`  // how long it works first, in nanoseconds
	Then time.Duration `json:"then,omitempty"` // retry: the delay
}

const (
	hold     = "hold"
	late     = "late"
	work     = "work"
	retry    = "retry"
	kill     = "kill"
	overflow = "overflow"
)

// Hold waits for the end of the handler's context, and returns its cause.
func Hold() Act { return Act{Do: hold} }

// Late waits for the end of the handler's context too, but returns nil as if
// all were well.
func Late() Act { return Act{Do: late} }

// Work takes so long, unless the handler's context ends before.
func Work(d time.Duration) Act { return Act{Do: work, For: d} }

// Retry works for d, fails, and asks for another attempt after delay.
func Retry(d, delay time.Duration) Act { return Act{Do: retry, For: d, Then: delay} }

// Kill ends the worker's process with SIGKILL.
func Kill() Act { return Act{Do: kill} }

// Overflow uses up the stack that a goroutine may have, which nothing in a Go
// program can recover from.
func Overflow() Act { return Act{Do: overflow} }
