package workerproc

import (
	"bytes"
	"sync"
)

// lines is a process's stdout: which lines it has printed so far.
type lines struct {
	mu      sync.Mutex
	part    []byte // of a line that has not ended
	seen    map[string]bool
	closed  bool
	waiting map[chan bool]string
}

// Write takes what the process prints.
func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, data...)
	for {
		line, rest, ended := bytes.Cut(l.part, []byte("\n"))
		if !ended {
			return len(data), nil
		}
		l.part = rest
		l.add(string(line))
	}
}

func (l *lines) add(line string) {
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	l.seen[line] = true
	for waiter, want := range l.waiting {
		if want == line {
			l.answer(waiter, true)
		}
	}
}

func (l *lines) answer(waiter chan bool, printed bool) {
	waiter <- printed // has room for one
	delete(l.waiting, waiter)
}

// await answers true when the line has been printed, false when it won't be.
// forget gives up.
func (l *lines) await(line string) (printed <-chan bool, forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiter := make(chan bool, 1)
	switch {
	case l.seen[line]:
		waiter <- true
	case l.closed:
		waiter <- false
	default:
		if l.waiting == nil {
			l.waiting = map[chan bool]string{}
		}
		l.waiting[waiter] = line
	}
	return waiter, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, waiter)
	}
}

// close says that the process prints no more.
func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for waiter := range l.waiting {
		l.answer(waiter, false)
	}
}

// tail keeps the end of what a process writes.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 64 << 10

func (t *tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, data...)
	if over := len(t.data) - tailSize; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(data), nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.data)
}
