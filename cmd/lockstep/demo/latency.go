package demo

import (
	"fmt"
	"slices"
	"time"
)

// latencies are the times from just before COMMIT was sent to the first line of
// the handler, by this process's clock: the commit itself is in them.
type latencies []time.Duration

// percentile is the nearest-rank percentile p, 0 < p <= 100; 0 without values.
func (l latencies) percentile(p int) time.Duration {
	if len(l) == 0 {
		return 0
	}
	slices.Sort(l)
	return l[(len(l)*p+99)/100-1]
}

// String shows the percentiles that people ask for.
func (l latencies) String() string {
	ms := func(p int) float64 { return float64(l.percentile(p).Microseconds()) / 1000 }
	return fmt.Sprintf("p50 %.1f ms, p95 %.1f ms, p99 %.1f ms, most %.1f ms (%d jobs)", ms(50), ms(95), ms(99), ms(100), len(l))
}
