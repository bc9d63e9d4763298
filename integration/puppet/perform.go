package puppet

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
)

var errScripted = errors.New("failed, as scripted")

// perform does what the script says for the worker called name.
func (s Script) perform(ctx context.Context, name string) error {
	act, ok := s[name]
	if !ok {
		act = s[""]
	}
	switch act.Do {
	case "":
		return nil
	case hold:
		<-ctx.Done()
		return context.Cause(ctx)
	case late:
		<-ctx.Done()
		return nil
	case work:
		return busy(ctx, act.For)
	case retry:
		if err := busy(ctx, act.For); err != nil {
			return err
		}
		return dispatcher.RetryAfter(act.Then, errScripted)
	case kill:
		return die(ctx)
	case overflow:
		debug.SetMaxStack(1 << 20)
		return fmt.Errorf("a stack without end has %d frames", deepen(0))
	}
	return fmt.Errorf("the script says %q, which is no act", act.Do)
}

func busy(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// die does not return if it can help it: the signal may take a moment.
func die(ctx context.Context) error {
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGKILL); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// deepen never returns. It can't be turned into a loop: there is work to do
// after the call.
//
//lint:ignore SA5007 an end of the recursion would defeat its purpose
func deepen(frames int) int { return max(frames, deepen(frames+1)) }
