package demo

import (
	"context"
	"fmt"
	"io"
	"time"
)

// progress shows how the demo goes while it goes.
type progress struct {
	out     io.Writer
	live    bool
	every   time.Duration
	list    *sentList
	tracker *tracker
	began   time.Time
}

func newProgress(config Config, list *sentList, tracker *tracker) *progress {
	p := &progress{out: config.Out, live: config.Live, every: 2 * time.Second, list: list, tracker: tracker, began: time.Now()}
	if p.live {
		p.every = 200 * time.Millisecond
	}
	return p
}

// run shows the progress until the context ends.
func (p *progress) run(ctx context.Context) error {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.show()
		case <-ctx.Done():
			if p.live {
				p.show()
				fmt.Fprintln(p.out)
			}
			return nil
		}
	}
}

func (p *progress) show() {
	c := p.tracker.snapshot()
	sent := p.list.count()
	line := fmt.Sprintf("%4.0f s  enqueued %6d  completed %6d  retries %5d  dead %4d  to do %6d",
		time.Since(p.began).Seconds(), sent, c.done, c.retried, c.died, max(sent-c.done-c.died, 0))
	if p.live {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(p.out, line)
}
