package dispatcher

import "sync"

// budget bounds the jobs that one Run claims (Config.MaxJobs). The zero budget
// is without end.
type budget struct {
	limited bool

	mu   sync.Mutex // held from take to spend: claims take turns
	left int
}

func (b *budget) set(most int) { b.limited, b.left = most > 0, most }

// take is how many of n jobs may be claimed; spend must follow, with how many
// were.
func (b *budget) take(n int) int {
	if !b.limited {
		return n
	}
	b.mu.Lock()
	return min(n, b.left)
}

func (b *budget) spend(n int) {
	if b.limited {
		b.left -= n
		b.mu.Unlock()
	}
}
