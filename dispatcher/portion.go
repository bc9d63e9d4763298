package dispatcher

import "time"

// portion is how much one call may carry: half after one that was too much, or came
// too late, and twice as much again after one that left time, up to limit. Without
// it what is too much is sent again and again, and never gets through.
type portion struct{ most, limit int }

func newPortion(limit int) portion { return portion{most: limit, limit: limit} }

// tooMuch: a call failed that carried n.
func (p *portion) tooMuch(n int) { p.most = max(1, n/2) }

// done: a call took so long of its time.
func (p *portion) done(took, timeout time.Duration) {
	if took < timeout/4 {
		p.most = min(2*p.most, p.limit)
	}
}
