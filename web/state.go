package web

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/store"
)

const (
	// countEvery bounds how often jobs are counted, over the whole fleet.
	countEvery = 5 * time.Second
	// countTimeout bounds the wait for a count: a scrape goes on without.
	countTimeout = 3 * time.Second
)

// state reads, at each scrape, what is kept elsewhere.
type state struct{ *Metrics }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("lockstep_"+name, help, labels, nil)
}

var (
	jobsDesc       = desc("jobs", "Jobs by queue and state, of the whole database. Every process says the same: take the maximum, not the sum.", "queue", "state")
	oldestDesc     = desc("oldest_ready_age_seconds", "How long the first of the ready jobs has been due, of the whole database.", "queue")
	countAgeDesc   = desc("jobs_count_age_seconds", "How old the count behind lockstep_jobs is.")
	slotsDesc      = desc("slots", "Jobs that this process runs at a time at most.", "queue")
	busyDesc       = desc("slots_busy", "Slots in use.", "queue")
	stuckDesc      = desc("slots_stuck", "Slots whose handler goes on after its context ended.", "queue")
	unrecordedDesc = desc("outcomes_waiting", "Outcomes on their way into the database.", "queue")
	looksDesc      = desc("looks_total", "Looks at a queue, by what led to them: signal, timer, catch-up or poll.", "queue", "reason")
	claimedDesc    = desc("jobs_claimed_total", "Jobs claimed, by what led to the look.", "queue", "reason")
	lostDesc       = desc("signals_lost_total", "Jobs found by nothing but time: their signal was lost. Zero while signals arrive.", "queue")
	heldDesc       = desc("leases_held", "Claims whose leases this process keeps.")
	triedDesc      = desc("advisory_locks_tried_total", "Advisory locks tried, by class.", "class")
	refusedDesc    = desc("advisory_locks_refused_total", "Tries that found the lock held by another.", "class")
	listenDesc     = desc("listener_connected", "1 while signals are heard.")
	signalsDesc    = desc("signals_total", "Signals received.")
	reconnectDesc  = desc("listener_reconnects_total", "Attempts to connect the listener after the first.")
	workedDesc     = desc("loop_last_success_seconds", "Seconds since each loop had what it asked of the database.", "loop")
	circuitDesc    = desc("circuit_open", "1 while a push target is not pushed to, 0.5 while a probe decides.", "target")
)

// Describe says nothing: what there is depends on what runs.
func (s *state) Describe(chan<- *prometheus.Desc) {}

// Collect sends everything.
func (s *state) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	s.jobs(gauge)
	s.circuits(gauge)
	d := s.dispatcher.Load()
	if d == nil {
		return
	}
	stats := d.Stats()
	for name, q := range stats.Queues {
		s.slots(name, q, gauge, count)
	}
	gauge(heldDesc, float64(stats.Held))
	count(triedDesc, stats.Locks.Run.Tried, "run")
	count(refusedDesc, stats.Locks.Run.Refused, "run")
	count(triedDesc, stats.Locks.Mutex.Tried, "mutex")
	count(refusedDesc, stats.Locks.Mutex.Refused, "mutex")
	count(signalsDesc, stats.Listener.Signals)
	count(reconnectDesc, stats.Listener.Reconnects)
	connected := 0.0
	if stats.Listener.Mode.String() == "connected" {
		connected = 1
	}
	gauge(listenDesc, connected)
	for loop, at := range stats.Worked {
		gauge(workedDesc, time.Since(at).Seconds(), string(loop))
	}
}

type (
	gauging  func(d *prometheus.Desc, v float64, labels ...string)
	counting func(d *prometheus.Desc, v uint64, labels ...string)
)

func (s *state) slots(name string, q dispatcher.QueueStats, gauge gauging, count counting) {
	gauge(slotsDesc, float64(q.Concurrency), name)
	gauge(busyDesc, float64(q.Busy), name)
	gauge(stuckDesc, float64(q.Stuck), name)
	gauge(unrecordedDesc, float64(q.Unrecorded), name)
	count(lostDesc, q.LostSignals, name)
	for reason, looks := range q.Looks {
		count(looksDesc, looks.Looks, name, reason.String())
		count(claimedDesc, looks.Jobs, name, reason.String())
	}
}

func (s *state) circuits(gauge gauging) {
	if s.config.Circuits == nil {
		return
	}
	for target, state := range s.config.Circuits() {
		gauge(circuitDesc, map[string]float64{"open": 1, "half-open": 0.5}[state], target)
	}
}

// jobs publishes the last count. States and queues that are gone drop out; a
// queue that is configured always has its ready jobs, if none.
func (s *state) jobs(gauge gauging) {
	if s.config.Count == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	counted, err := s.config.Count(ctx, countEvery)
	if err != nil || counted.CountedAt.IsZero() {
		return
	}
	type at struct {
		queue string
		state store.State
	}
	jobs, oldest := map[at]int64{}, map[string]float64{}
	for _, queue := range s.config.Queues {
		jobs[at{queue, store.StateReady}], oldest[queue] = 0, 0
	}
	for _, c := range counted.Counts {
		queue := s.queue(c.Queue)
		jobs[at{queue, c.State}] += c.Jobs
		if c.State == store.StateReady && c.Soonest != nil {
			oldest[queue] = max(oldest[queue], counted.CountedAt.Sub(*c.Soonest).Seconds())
		}
	}
	for where, n := range jobs {
		gauge(jobsDesc, float64(n), where.queue, string(where.state))
	}
	for queue, age := range oldest {
		gauge(oldestDesc, age, queue)
	}
	gauge(countAgeDesc, max(0, time.Since(counted.CountedAt).Seconds()))
}
