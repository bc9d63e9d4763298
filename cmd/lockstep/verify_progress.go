package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lockstep-pg/lockstep/store/verify"
)

// progress shows how far a verification is: on a terminal in a line that is
// written again and again, elsewhere by a line every two seconds. It shows also
// while nothing comes, as the server sorts.
type progress struct {
	out   io.Writer
	live  bool
	began time.Time

	mu   sync.Mutex
	step verify.Progress

	stop, stopped chan struct{}
}

// startProgress shows progress until end.
func startProgress(out io.Writer) *progress {
	p := &progress{out: out, live: isTerminal(out), began: time.Now(), stop: make(chan struct{}), stopped: make(chan struct{})}
	every := 2 * time.Second
	if p.live {
		every = 200 * time.Millisecond
	}
	ticker := time.NewTicker(every)
	go func() {
		defer close(p.stopped)
		defer ticker.Stop()
		p.run(ticker.C)
	}()
	return p
}

// set is told how far the verification is.
func (p *progress) set(step verify.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = step
}

// run shows the latest step whenever tick says so.
func (p *progress) run(tick <-chan time.Time) {
	for {
		select {
		case now := <-tick:
			p.show(now)
		case <-p.stop:
			return
		}
	}
}

func (p *progress) show(now time.Time) {
	p.mu.Lock()
	step := p.step
	p.mu.Unlock()
	line := fmt.Sprintf("%4.0f s  %s", now.Sub(p.began).Seconds(), step.Step)
	switch {
	case step.Total > 0 && step.Rows == 0:
		line += fmt.Sprintf(", about %d rows being sorted by the server", step.Total)
	case step.Total > 0:
		line += fmt.Sprintf(", %d of about %d rows", step.Rows, max(step.Rows, step.Total))
	case step.Rows > 0:
		line += fmt.Sprintf(", %d rows", step.Rows)
	}
	if p.live {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(p.out, line)
}

// end stops it, and leaves the line clear for what comes next.
func (p *progress) end() {
	close(p.stop)
	<-p.stopped
	if p.live {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
