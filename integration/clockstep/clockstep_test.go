package clockstep_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/clockstep"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

func TestMain(m *testing.M) {
	workerproc.Register("stepped", stepped)
	os.Exit(workerproc.Main(m))
}

const step = 10 * time.Minute

// stepped looks at the time from many goroutines while its clock goes ahead,
// and back beyond where it was.
func stepped(ctx context.Context, _ []string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for range 4 {
		go func() {
			for ctx.Err() == nil {
				_ = time.Now()
			}
		}()
	}
	began := time.Now()
	for _, s := range []struct{ by, sum time.Duration }{{step, step}, {-2 * step, -step}, {step, 0}} {
		err := clockstep.Step(s.by)
		if errors.Is(err, clockstep.ErrUnsupported) {
			fmt.Println("refused")
			return nil
		}
		if err != nil {
			return err
		}
		now := time.Now()
		apart := now.Round(0).Sub(began.Round(0)) - now.Sub(began) // by the wall clock, and by the other
		if apart < s.sum-time.Second || apart > s.sum+time.Second {
			return fmt.Errorf("after a step of %v the wall clock is %v off, want %v", s.by, apart, s.sum)
		}
		if now.Sub(began) < 0 || now.Sub(began) > time.Minute {
			return fmt.Errorf("after a step of %v the durations are wrong too: %v", s.by, now.Sub(began))
		}
		timer := time.Now()
		time.Sleep(10 * time.Millisecond)
		if took := time.Since(timer); took < 10*time.Millisecond || took > time.Minute {
			return fmt.Errorf("10 ms took %v", took)
		}
	}
	fmt.Println("stepped")
	return nil
}

func TestStep(t *testing.T) {
	t.Parallel()
	p := workerproc.Start(t, "stepped")
	if code := p.Wait(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.Stderr())
	}
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		p.Await(t, "stepped")
	} else {
		p.Await(t, "refused")
	}
}
