package faults

import (
	"errors"
	"math/rand/v2"
	"time"
)

// pace is how a plan is carried out.
type pace struct {
	length    time.Duration // faults are struck for so long, and until each kind was struck once
	between   time.Duration // the longest pause between two
	tolerance time.Duration // how long all of it may take in the end, on a slow machine
}

// strike carries out the plan that the seed draws: every kind once, in a random
// order, then kinds at random.
func (s *stage) strike(kinds []kind, p pace) {
	s.t.Helper()
	draw := rand.New(rand.NewPCG(s.seed, 1))
	var todo []kind
	for _, n := range draw.Perm(len(kinds)) {
		if s.impossible[kinds[n].name] == nil {
			todo = append(todo, kinds[n])
		}
	}
	possible := len(todo)
	began := time.Now()
	for turn := uint64(0); len(todo) > 0 || time.Since(began) < p.length; turn++ {
		if len(todo) == 0 {
			todo = append(todo, kinds[draw.IntN(len(kinds))])
		}
		k := todo[0]
		todo = todo[1:]
		if s.impossible[k.name] != nil {
			continue
		}
		// Each strike draws from a source of its own: how long one took changes
		// nothing about the next.
		own := rand.New(rand.NewPCG(s.seed, 2+turn))
		if !s.strikeOnce(k, own) {
			todo = append(todo, k)
		}
		pause(s.t.Context(), between(own, p.between/10, p.between))
		if time.Since(began) > p.tolerance {
			s.t.Fatalf("after %v %d of %d kinds of faults are still to be struck", p.tolerance, len(todo), possible)
		}
	}
}

// strikeOnce strikes, and waits until a handler has started after that.
func (s *stage) strikeOnce(k kind, draw *rand.Rand) bool {
	s.t.Helper()
	from := s.moment()
	who, err := k.strike(s, draw)
	if errors.Is(err, errMissed) {
		return false
	}
	if err != nil {
		s.t.Fatalf("%s: %v", k.name, err)
	}
	next := s.next()
	s.struck(Strike{Kind: k.name, Who: who, From: from, To: s.moment()})
	select {
	case <-next:
	case <-time.After(patience):
		s.t.Errorf("%s: no handler started within %v after it", k.name, patience)
	}
	return true
}
