package web

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/store"
)

// MetricsConfig says what to measure.
type MetricsConfig struct {
	// Queues are those that have a label of their own; jobs of others are
	// counted under "other", so that labels stay few.
	Queues []string

	// Count counts jobs: store.Store.CountJobs. Nil: they are not counted.
	Count func(ctx context.Context, maxAge time.Duration) (store.JobCounts, error)

	// Circuits are the states of push targets, by name: closed, half-open or
	// open. Nil: none.
	Circuits func() map[string]string
}

// Metrics are a dispatcher's metrics for Prometheus, and this process's own. No
// label holds an id, a key, or an error's text; kinds are labelled by their
// handlers, as those were registered.
type Metrics struct {
	config     MetricsConfig
	dispatcher atomic.Pointer[dispatcher.Dispatcher]
	handler    http.Handler

	outcomes    *prometheus.CounterVec
	leases      *prometheus.CounterVec
	troubles    *prometheus.CounterVec
	handlerTime *prometheus.HistogramVec
	waitTime    *prometheus.HistogramVec
	pickupTime  *prometheus.HistogramVec
	pushTime    *prometheus.HistogramVec
}

// NewMetrics returns Metrics that are to be told of events (OnEvent) and shown
// the dispatcher (Watch).
func NewMetrics(c MetricsConfig) *Metrics {
	m := &Metrics{config: c}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m.outcomes = counter("lockstep_attempts_total", "Attempts that ended here, by handler and outcome.", "handler", "outcome")
	m.leases = counter("lockstep_leases_ended_total", "Claims that ended otherwise than by a report: lost (another's by now, or not renewed in time), ineffective (the report came too late).", "how")
	m.troubles = counter("lockstep_database_troubles_total", "Calls that the database did not answer or refused, by what was asked.", "asked")
	m.handlerTime = histogram("lockstep_handler_seconds", "How long handlers ran.", prometheus.ExponentialBuckets(0.001, 4, 11), "handler")
	m.waitTime = histogram("lockstep_wait_seconds", "From when a job was due until it was claimed: behind its lane, in the queue, or for a worker.", prometheus.ExponentialBuckets(0.001, 4, 11), "queue")
	m.pickupTime = histogram("lockstep_pickup_seconds", "From when a claim was sent until the handler began.", prometheus.ExponentialBuckets(0.00025, 4, 8), "queue")
	m.pushTime = histogram("lockstep_push_seconds", "How long exchanges with push targets took, by class of status; none: no answer.", prometheus.ExponentialBuckets(0.001, 4, 11), "target", "status")
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.outcomes, m.leases, m.troubles, m.handlerTime, m.waitTime, m.pickupTime, m.pushTime, &state{m})
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
	return m
}

// Watch shows the dispatcher whose statistics to publish.
func (m *Metrics) Watch(d *dispatcher.Dispatcher) { m.dispatcher.Store(d) }

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// OnEvent counts what happens; it is made for dispatcher.Config.OnEvent.
func (m *Metrics) OnEvent(e dispatcher.Event) {
	switch e.Type {
	case dispatcher.Started:
		m.waitTime.WithLabelValues(e.Queue).Observe(e.Waited.Seconds())
		m.pickupTime.WithLabelValues(e.Queue).Observe(e.Took.Seconds())
	case dispatcher.Ended:
		m.handlerTime.WithLabelValues(e.Handler).Observe(e.Ran.Seconds())
		if e.Outcome != "" {
			m.outcomes.WithLabelValues(e.Handler, string(e.Outcome)).Inc()
		}
	case dispatcher.LeaseLost:
		m.leases.WithLabelValues("lost").Inc()
	case dispatcher.Ineffective:
		m.leases.WithLabelValues("ineffective").Inc()
	case dispatcher.Trouble:
		m.troubles.WithLabelValues(e.Reason).Inc()
	}
}

// Pushed measures an exchange with a push target; status 0: there was no answer.
func (m *Metrics) Pushed(target string, status int, took time.Duration) {
	class := "none"
	if status > 0 {
		class = string(rune('0'+status/100)) + "xx"
	}
	m.pushTime.WithLabelValues(target, class).Observe(took.Seconds())
}

// queue is the label of a queue.
func (m *Metrics) queue(name string) string {
	if slices.Contains(m.config.Queues, name) {
		return name
	}
	return "other"
}
