package faults

import (
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-pg/lockstep/integration/faultproxy"
)

// kind is a kind of fault.
type kind struct {
	name string
	what string // for the report
	// strike begins it, lasts as long as it, and returns when it is healed. It
	// says whom it was meant for, if not everybody. errMissed: it did not come
	// to pass.
	strike func(*stage, *rand.Rand) (who string, err error)
}

// The kinds after which the judge knows that the server has committed.
const (
	enqueueUnanswered = "enqueue unanswered"
	commitUnanswered  = "commit unanswered"
)

// errMissed is a fault that waited for its moment in vain.
var errMissed = errors.New("missed")

var kinds = []kind{
	{"server stopped", "fast shutdown, down for up to 1 s", (*stage).stopServer},
	{"server crashed", "kill -9 of all its processes, down for up to 1 s", (*stage).crashServer},
	{"failover", "primary gone, synchronous standby promoted", (*stage).failOver},
	{"disk full", "no room for tables, or for the log, for up to 2 s", (*stage).fillDisk},
	{"worker frozen", "SIGSTOP for less than a lease", (*stage).freezeShort},
	{"worker frozen long", "SIGSTOP beyond its leases", (*stage).freezeLong},
	{"worker killed", "SIGKILL", (*stage).killWorker},
	{"worker redeployed", "SIGTERM, and a new one", (*stage).redeployWorker},
	{"producer killed", "SIGKILL", (*stage).killProducer},
	{"clock ahead", "a worker's clock goes 10 min ahead again and again", (*stage).clockAhead},
	{"clock back", "a worker's clock goes 10 min back again and again", (*stage).clockBack},
	{"slow network", "each packet delayed by up to 150 ms", (*stage).delay},
	{"black hole", "nothing comes through, nothing breaks", (*stage).blackHole},
	{"reset", "connections broken, for everybody", (*stage).resetAll},
	{"refused", "new connections refused, old ones broken", (*stage).refuse},
	{"server vanished", "half open: the client's side stays open", (*stage).strand},
	{"client vanished", "half open: the server's session stays, with its locks", (*stage).abandon},
	{enqueueUnanswered, "cut between the commit of an enqueue and its answer", (*stage).loseEnqueue},
	{commitUnanswered, "cut between a producer's COMMIT and its answer", (*stage).loseCommit},
	{"transaction unanswered", "cut between COMMIT and answer of a transactional handler", (*stage).loseTransaction},
	{"finish unanswered", "cut between the commit of a report and its answer", (*stage).loseFinish},
}

func between(draw *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(draw.Int64N(int64(most-least)))
}

// last holds a fault for a drawn time.
func last(draw *rand.Rand, least, most time.Duration) { time.Sleep(between(draw, least, most)) }

func one(actors []*actor, draw *rand.Rand) *actor { return actors[draw.IntN(len(actors))] }

// anyone is somebody whose way to the database is to be broken: errMissed if there
// is no connection on it that could be.
func (s *stage) anyone(draw *rand.Rand) (*actor, error) {
	a := one(append(append([]*actor{}, s.workers...), s.producers...), draw)
	if a.proxy.Open() == 0 {
		return nil, errMissed
	}
	return a, nil
}

func (s *stage) stopServer(draw *rand.Rand) (string, error) {
	if err := s.cluster.whole(); err != nil {
		return "", err
	}
	ctx, cancel := s.cluster.context()
	defer cancel()
	if err := s.cluster.primary.Stop(ctx); err != nil {
		return "", err
	}
	last(draw, 0, time.Second)
	return "", s.cluster.startAgain()
}

func (s *stage) crashServer(draw *rand.Rand) (string, error) {
	if err := s.cluster.whole(); err != nil {
		return "", err
	}
	s.cluster.primary.Crash()
	last(draw, 0, time.Second)
	return "", s.cluster.startAgain()
}

func (s *stage) failOver(draw *rand.Rand) (string, error) {
	if err := s.cluster.whole(); err != nil {
		return "", err
	}
	if draw.IntN(2) == 0 {
		s.cluster.primary.Crash()
	} else {
		ctx, cancel := s.cluster.context()
		defer cancel()
		if err := s.cluster.primary.Stop(ctx); err != nil {
			return "", err
		}
	}
	return "", s.cluster.failOver()
}

// fillDisk takes the room of the primary away, until a session has felt it.
func (s *stage) fillDisk(draw *rand.Rand) (string, error) {
	if err := s.cluster.whole(); err != nil {
		return "", err
	}
	dir := s.cluster.primary.Dir()
	if err := shrink(dir); err != nil {
		return "", err
	}
	felt := s.cluster.feelsFull(draw.IntN(2) == 0)
	last(draw, 300*time.Millisecond, 2*time.Second)
	if err := resize(dir, diskSize); err != nil {
		return "", err
	}
	return "", errors.Join(felt, s.cluster.startAgain())
}

func (s *stage) freeze(draw *rand.Rand, least, most time.Duration) string {
	a := one(s.workers, draw)
	a.process.Await(s.t, ready)
	a.process.Signal(s.t, syscall.SIGSTOP)
	last(draw, least, most)
	a.process.Signal(s.t, syscall.SIGCONT)
	return a.config.Name
}

func (s *stage) freezeShort(draw *rand.Rand) (string, error) {
	return s.freeze(draw, s.lease/10, s.lease/2), nil
}

func (s *stage) freezeLong(draw *rand.Rand) (string, error) {
	return s.freeze(draw, s.lease+s.lease/5, 2*s.lease), nil
}

func (s *stage) killWorker(draw *rand.Rand) (string, error) {
	a := one(s.workers, draw)
	name := a.config.Name
	a.kill()
	a.start()
	return name, nil
}

func (s *stage) redeployWorker(draw *rand.Rand) (string, error) {
	a := one(s.workers, draw)
	name := a.config.Name
	a.stop()
	a.start()
	return name, nil
}

func (s *stage) killProducer(draw *rand.Rand) (string, error) {
	a := one(s.producers, draw)
	name := a.config.Name
	a.kill()
	a.start()
	return name, nil
}

func (s *stage) clockAhead(draw *rand.Rand) (string, error) {
	return s.stepClock(draw, syscall.SIGUSR1, syscall.SIGUSR2), nil
}

func (s *stage) clockBack(draw *rand.Rand) (string, error) {
	return s.stepClock(draw, syscall.SIGUSR2, syscall.SIGUSR1), nil
}

// stepClock steps a worker's clock away, again and again, and then back.
func (s *stage) stepClock(draw *rand.Rand, away, back syscall.Signal) string {
	a := one(s.workers, draw)
	a.process.Await(s.t, ready)
	steps := 0
	for until := time.Now().Add(between(draw, s.lease+s.lease/10, s.lease+s.lease/4)); time.Now().Before(until); steps++ {
		a.process.Signal(s.t, away)
		time.Sleep(s.lease / 10)
	}
	for range steps {
		a.process.Signal(s.t, back)
		time.Sleep(10 * time.Millisecond) // signals that come at once are one
	}
	return a.config.Name
}

// during sets a fault on somebody's way for a drawn time.
func (s *stage) during(draw *rand.Rand, fault faultproxy.Fault, least, most time.Duration) (string, error) {
	a, err := s.anyone(draw)
	if err != nil {
		return "", err
	}
	a.proxy.Set(fault)
	if fault.Refuse {
		a.proxy.Reset()
	}
	last(draw, least, most)
	a.proxy.Set(faultproxy.Fault{})
	return a.config.Name, nil
}

func (s *stage) delay(draw *rand.Rand) (string, error) {
	return s.during(draw, faultproxy.Fault{Delay: between(draw, 20*time.Millisecond, 150*time.Millisecond)}, time.Second, 2*time.Second)
}

func (s *stage) blackHole(draw *rand.Rand) (string, error) {
	return s.during(draw, faultproxy.BlackHole, time.Second, s.lease+s.lease/2)
}

func (s *stage) refuse(draw *rand.Rand) (string, error) {
	return s.during(draw, faultproxy.Fault{Refuse: true}, 500*time.Millisecond, s.lease)
}

func (s *stage) resetAll(*rand.Rand) (string, error) {
	open := 0
	for _, a := range append(append([]*actor{}, s.workers...), s.producers...) {
		open += a.proxy.Open()
		a.proxy.Reset()
	}
	if open == 0 {
		return "", errMissed
	}
	return "", nil
}

func (s *stage) strand(draw *rand.Rand) (string, error) {
	a, err := s.anyone(draw)
	if err != nil {
		return "", err
	}
	a.proxy.Strand()
	last(draw, time.Second, s.lease+s.lease/2)
	a.proxy.Bury()
	return a.config.Name, nil
}

func (s *stage) abandon(draw *rand.Rand) (string, error) {
	a, err := s.anyone(draw)
	if err != nil {
		return "", err
	}
	a.proxy.Abandon()
	least, most := time.Second, s.lease
	if draw.IntN(4) == 0 { // long enough for a dispatcher to end its session
		least, most = 2*s.lease+3*time.Second, 2*s.lease+6*time.Second
	}
	last(draw, least, most)
	a.proxy.Bury()
	return a.config.Name, nil
}

// lose loses the answer to the next statement of one of the actors that
// commits.
func (s *stage) lose(actors []*actor, draw *rand.Rand, match func(sql string) bool) (string, error) {
	a := one(actors, draw)
	lost, forget := a.proxy.LoseAnswer(match)
	select {
	case <-lost:
		return a.config.Name, nil
	case <-time.After(15 * time.Second):
		if forget() {
			return "", errMissed
		}
		<-lost
		return a.config.Name, nil
	}
}

func isCommit(sql string) bool { return strings.EqualFold(sql, "commit") }

func (s *stage) loseEnqueue(draw *rand.Rand) (string, error) {
	return s.lose(s.producers, draw, func(sql string) bool { return strings.Contains(sql, ".enqueue(") })
}

func (s *stage) loseCommit(draw *rand.Rand) (string, error) {
	return s.lose(s.producers, draw, isCommit)
}

func (s *stage) loseTransaction(draw *rand.Rand) (string, error) {
	return s.lose(s.workers, draw, isCommit)
}

func (s *stage) loseFinish(draw *rand.Rand) (string, error) {
	return s.lose(s.workers, draw, func(sql string) bool { return strings.Contains(sql, ".finish(") })
}
