package dispatcher

import (
	"maps"
	"sync"
	"time"
)

// Loop is one of the things that a Dispatcher does over and over.
type Loop string

// The loops.
const (
	LoopClaim     Loop = "claim"     // for each queue, at the latest every Config.Poll while there is a free slot
	LoopFinish    Loop = "finish"    // as jobs end
	LoopHeartbeat Loop = "heartbeat" // every Config.Heartbeat
	LoopDue       Loop = "due"       // as jobs fall due, at the latest every Config.Poll
	LoopSweep     Loop = "sweep"     // every 30 s
	LoopUpkeep    Loop = "upkeep"    // every 10 min
)

// worked keeps when each loop last had what it asked of the database.
type worked struct {
	mu sync.Mutex
	at map[Loop]time.Time
}

func (w *worked) note(loop Loop) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at = make(map[Loop]time.Time)
	}
	w.at[loop] = time.Now()
}

func (w *worked) all() map[Loop]time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.at)
}
