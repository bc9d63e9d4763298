package dispatcher

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// maxDump bounds the stacks of all goroutines together, from which one is cut.
const maxDump = 16 << 20

// goroutineID finds a goroutine again in a dump of all: "goroutine 42 [". The
// zero value finds none.
type goroutineID struct{ prefix atomic.Pointer[[]byte] }

// set makes the calling goroutine the one to find.
func (g *goroutineID) set() {
	var buf [64]byte
	head := buf[:runtime.Stack(buf[:], false)]
	if end := bytes.IndexByte(head, '['); end > 0 {
		prefix := head[: end+1 : end+1]
		g.prefix.Store(&prefix)
	}
}

// stack is where the goroutine is now; nil if it can't be found. It stops the
// world for a moment, so it is for handlers that hang, not for those that end.
func (g *goroutineID) stack() []byte {
	prefix := g.prefix.Load()
	if prefix == nil {
		return nil
	}
	return lastDump.of(*prefix)
}

// lastDump is shared: handlers often hang all together, and each dump takes longer
// the more there are.
var lastDump dump

// dump is the stacks of all goroutines at a moment, by what each begins with.
type dump struct {
	mu      sync.Mutex
	asking  atomic.Int64
	taken   time.Time // before it was
	section map[string][]byte
}

// of cuts a goroutine's part out of a dump that is no older than the call.
func (d *dump) of(prefix []byte) []byte {
	asked := time.Now()
	d.asking.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.taken.After(asked) {
		d.taken = time.Now()
		d.section = sections(stacks())
	}
	found := bytes.Clone(d.section[string(prefix)])
	if d.asking.Add(-1) == 0 {
		d.section, d.taken = nil, time.Time{}
	}
	return found
}

// stacks are those of all goroutines, up to maxDump.
func stacks() []byte {
	for size := 64 << 10; ; size *= 4 {
		all := make([]byte, size)
		if n := runtime.Stack(all, true); n < size || size >= maxDump {
			return all[:n]
		}
	}
}

// sections cuts a dump apart, where an empty line separates the goroutines.
func sections(all []byte) map[string][]byte {
	parts := make(map[string][]byte)
	for part := range bytes.SplitSeq(all, []byte("\n\n")) {
		if end := bytes.IndexByte(part, '['); end > 0 {
			parts[string(part[:end+1])] = part
		}
	}
	return parts
}
