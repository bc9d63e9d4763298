package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/faultproxy"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
)

// actor is a place for a process: when one dies, the next takes it over, and
// its way to the database.
type actor struct {
	t       testing.TB
	role    string
	place   string
	proxy   *faultproxy.Proxy
	config  actorConfig
	witness *Witness
	count   int
	process *workerproc.Process
}

func (s *stage) actor(role string, n int) *actor {
	s.t.Helper()
	a := &actor{t: s.t, role: role, place: fmt.Sprintf("%s %d", role, n+1), witness: s.Witness}
	a.config = actorConfig{Witness: s.address(), Seed: s.seed + uint64(n)<<32, Lease: s.lease}
	a.proxy, a.config.URL = s.cluster.way()
	a.start()
	return a
}

// start starts the place's next process.
func (a *actor) start() {
	a.t.Helper()
	a.count++
	a.config.Seed++
	a.config.Name = fmt.Sprintf("%s.%d", a.place, a.count)
	a.process = workerproc.Start(a.t, a.role, a.config.args()...)
}

// kill ends the process with SIGKILL, once it is at work.
func (a *actor) kill() {
	a.t.Helper()
	a.process.Await(a.t, ready)
	a.process.Kill(a.t)
	a.witness.died(a.config.Name)
}

// stop asks the process to end, once it is at work and knows how to, and waits
// for it.
func (a *actor) stop() {
	a.t.Helper()
	a.process.Await(a.t, ready)
	a.process.Signal(a.t, syscall.SIGTERM)
	select {
	case <-a.process.Done():
	case <-time.After(patience):
		a.t.Fatalf("%s does not end", a.config.Name)
	}
	if code := a.process.Wait(a.t); code != 0 {
		a.t.Errorf("%s ended with exit code %d", a.config.Name, code)
	}
	a.witness.died(a.config.Name)
}
