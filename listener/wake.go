package listener

// Wake carries "there may be something to do" from many to one. However often
// it is set before the receiver looks, the receiver wakes once.
type Wake struct{ c chan struct{} }

// NewWake returns a Wake that is not set.
func NewWake() Wake { return Wake{c: make(chan struct{}, 1)} }

// Set wakes the receiver now, or lets it run on when it next waits. It never
// blocks.
func (w Wake) Set() {
	select {
	case w.c <- struct{}{}:
	default: // set already
	}
}

// C is ready once after one or more calls of Set. Receive from it *before*
// looking for work: what is set during the look then wakes again.
func (w Wake) C() <-chan struct{} { return w.c }
