package dispatcher

import (
	"bytes"
	"runtime"
	"sync/atomic"
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
	for size := 64 << 10; size <= maxDump; size *= 4 {
		dump := make([]byte, size)
		n := runtime.Stack(dump, true)
		if n == size && size < maxDump {
			continue // cut off
		}
		return section(dump[:n], *prefix)
	}
	return nil
}

// section cuts one goroutine's part out of a dump, where an empty line
// separates them.
func section(dump, prefix []byte) []byte {
	for part := range bytes.SplitSeq(dump, []byte("\n\n")) {
		if bytes.HasPrefix(part, prefix) {
			return bytes.Clone(part)
		}
	}
	return nil
}
