package dispatcher

import (
	"context"
	"errors"
	"runtime/debug"
	"time"
)

// call is one run of a handler in a goroutine of its own, so that whatever the
// handler does there (panic, Goexit, never return), the attempt ends.
type call struct {
	attempt *attempt
	ctx     context.Context
	done    chan error // gets one value; nobody need take it
	id      goroutineID
	stuck   bool
}

// start runs the attempt's handler.
func (a *attempt) start(ctx context.Context) *call {
	c := &call{attempt: a, ctx: ctx, done: make(chan error, 1)}
	go c.run()
	return c
}

func (c *call) run() {
	var err error
	returned := false
	defer func() {
		if !returned {
			err = &PanicError{Value: recover(), Stack: debug.Stack()}
		}
		c.done <- err
	}()
	if c.attempt.handler.Timeout > 0 {
		c.id.set()
	}
	err = sound(c.attempt.handler.fn(c.ctx, c.attempt.job))
	returned = true
}

// outcome waits for the handler, and judges what it returned. One that ignores
// the end of its context is given up in the end; then the call itself is
// returned as late.
func (c *call) outcome() (o outcome, late *call) {
	returned, err := c.wait()
	cause := causeOf(c.ctx)
	switch {
	case returned && (err == nil || !errors.Is(cause, ErrTimeout)):
		return judge(err, cause), nil
	case returned:
		return judge(&timeoutError{after: c.attempt.handler.Timeout, err: err}, cause), nil
	case errors.Is(cause, ErrTimeout):
		return judge(&timeoutError{after: c.attempt.handler.Timeout, stack: c.id.stack()}, cause), c
	default:
		return judge(cause, cause), c
	}
}

// wait returns what the handler returned. Once its context has ended it has
// the ReturnGrace to do so. After that an attempt that timed out is given up;
// for the others there is no hurry until the dispatcher itself must end.
func (c *call) wait() (returned bool, err error) {
	select {
	case err := <-c.done:
		return true, err
	case <-c.ctx.Done():
	}
	grace := time.NewTimer(c.attempt.shift.cfg.ReturnGrace)
	defer grace.Stop()
	if end, err := c.until(grace.C); end != graceOver {
		return end == handlerReturned, err
	}
	c.stick()
	if errors.Is(causeOf(c.ctx), ErrTimeout) {
		return false, nil
	}
	end, err := c.until(nil)
	c.unstick()
	return end == handlerReturned, err
}

type waitEnd int

const (
	handlerReturned waitEnd = iota
	graceOver
	dispatcherEnds
)

// until waits for the handler, the end of the dispatcher, or timer.
func (c *call) until(timer <-chan time.Time) (end waitEnd, err error) {
	select {
	case err := <-c.done:
		return handlerReturned, err
	case <-timer:
		return graceOver, nil
	case <-c.attempt.shift.forced:
		return dispatcherEnds, nil
	}
}

// linger holds the slot of a handler that was given up, until it returns or
// the dispatcher itself must end.
func (c *call) linger() {
	_, _ = c.until(nil)
	c.unstick()
}

// stick counts the slot as stuck, and says so.
func (c *call) stick() {
	c.stuck = true
	a := c.attempt
	a.queue.countStuck(+1)
	a.tell(Event{Type: Stuck, Reason: causeOf(c.ctx).Error()})
}

func (c *call) unstick() {
	if !c.stuck {
		return
	}
	c.stuck = false
	a := c.attempt
	a.queue.countStuck(-1)
	a.tell(Event{Type: Unstuck, Ran: time.Since(a.started)})
}
