package demo

import (
	"fmt"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

const (
	kindPlain  = "demo.plain"
	kindLedger = "demo.ledger" // its handler gets a transaction

	tenants        = 5
	lanesEach      = 8               // ordering keys of a tenant
	burstLanesEach = 40              // the same, for jobs enqueued in bulk
	mostInFuture   = 3 * time.Second // of a scheduled job
)

// draw makes up a job, and what is to be remembered of it.
func (p *producer) draw(o *open) (store.NewJob, sent) {
	tenant, key := p.lane(lanesEach)
	mine := sent{
		lane: laneName(tenant, key), tx: o.id, place: len(o.jobs),
		plan: drawPlan(p.random), ledger: p.random.IntN(4) == 0,
	}
	job := store.NewJob{Kind: kindPlain, Tenant: tenant, OrderingKey: key, Payload: mine.plan}
	if mine.ledger {
		job.Kind = kindLedger
	}
	if p.random.IntN(20) == 0 {
		job.Delay = time.Duration(1 + p.random.Int64N(int64(mostInFuture)))
		mine.notBefore = o.began.Add(job.Delay.Truncate(time.Microsecond))
	}
	return job, mine
}

// lane draws a tenant and, for half of the jobs, one of its ordering keys.
func (p *producer) lane(keys int) (tenant, key string) {
	tenant = fmt.Sprintf("tenant-%d", 1+p.random.IntN(tenants))
	if p.random.IntN(2) == 0 {
		return tenant, ""
	}
	return tenant, fmt.Sprintf("account-%d", 1+p.random.IntN(keys))
}

func laneName(tenant, key string) string {
	if key == "" {
		return ""
	}
	return tenant + "/" + key
}
