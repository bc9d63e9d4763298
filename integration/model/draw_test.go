package model_test

import "pgregory.net/rapid"

// notNow is raised by a step that can't be taken.
type notNow struct{}

// only gives a step up unless it can be taken.
func only(possible bool) {
	if !possible {
		panic(notNow{})
	}
}

// attempt takes a step, and answers whether it could be taken.
func attempt(step func()) (taken bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(notNow); !ok {
				panic(r)
			}
			taken = false
		}
	}()
	step()
	return true
}

// coins is a number below 2^8, each as likely. rapid's own numbers are mostly small.
var coins = rapid.Custom(func(t *rapid.T) int {
	n := 0
	for _, one := range rapid.SliceOfN(rapid.Bool(), 8, 8).Draw(t, "coins") {
		n *= 2
		if one {
			n++
		}
	}
	return n
})

// one draws one of the things there are, each as likely, the first if shrunk.
func one[T any](w *world, label string, from ...T) T {
	only(len(from) > 0)
	return from[coins.Draw(w.t, label)%len(from)]
}

// percent is true in about so many of a hundred draws, false if shrunk.
func (w *world) percent(n int, label string) bool {
	return coins.Draw(w.t, label) >= 256-n*256/100
}

// open draws a session with an open transaction, one that may call the state
// functions if able.
func (w *world) open(able bool) *session {
	var found []*session
	for _, s := range w.sessions {
		if s.tx != nil && (!able || !s.tx.repeatable) {
			found = append(found, s)
		}
	}
	return one(w, "session", found...)
}

// row draws a job whose row nobody has.
func (w *world) row(is func(*job) bool) *job {
	return one(w, "job", w.all(func(j *job) bool { return j.live() && j.locked == nil && is(j) })...)
}

// mostly draws a job for which is holds, sometimes any that there ever was.
func (w *world) mostly(is func(*job) bool) *job {
	if w.percent(15, "any") {
		return one(w, "job", w.jobs...)
	}
	return one(w, "job", w.all(is)...)
}

func anyJob(*job) bool { return true }
