package handler

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/lockstep-pg/lockstep/dispatcher"
)

// Runner runs a job: a Push or a Command, or one of your own.
type Runner interface {
	// Run is the handler; what it returns is the outcome, as the package
	// dispatcher has it.
	Run(ctx context.Context, job dispatcher.Job[json.RawMessage]) error
}

// Route sends jobs to a Runner.
type Route struct {
	// Queue is the name of a queue, or a pattern that ends in *. "": all.
	Queue string
	// Kind is the name of a kind, or a pattern that ends in *. "": all.
	Kind string
	// To runs the jobs.
	To Runner
}

// Routes tell where jobs go. Of the routes of a queue, the closest kind decides,
// and of equal ones the first.
type Routes []Route

// Kinds are what a queue is served for, for dispatcher.Queue.Kinds.
func (r Routes) Kinds(queue string) (kinds []string) {
	for _, route := range r {
		if route.serves(queue) && !slices.Contains(kinds, route.kind()) {
			kinds = append(kinds, route.kind())
		}
	}
	return kinds
}

// Register registers the handlers for the queues, which must be those of d, and
// has the jobs of a Push whose circuit is open left where they are.
func (r Routes) Register(d *dispatcher.Dispatcher, queues ...string) {
	to := make(map[place]Runner)
	var kinds []string
	for _, queue := range queues {
		for _, route := range r {
			at := place{queue, route.kind()}
			if !route.serves(queue) || to[at] != nil {
				continue
			}
			to[at] = route.To
			if !slices.Contains(kinds, at.kind) {
				kinds = append(kinds, at.kind)
			}
			if push, ok := route.To.(*Push); ok {
				push.circuit.guard(func() { d.Withhold(at.queue, at.kind) }, func() { d.Restore(at.queue, at.kind) })
			}
		}
	}
	for _, kind := range kinds {
		dispatcher.Handle(d, kind, func(ctx context.Context, job dispatcher.Job[json.RawMessage]) error {
			return to[place{job.Queue, kind}].Run(ctx, job)
		})
	}
}

// place is a queue and one of the kinds it is served for.
type place struct{ queue, kind string }

func (r Route) kind() string {
	if r.Kind == "" {
		return "*"
	}
	return r.Kind
}

func (r Route) serves(queue string) bool {
	prefix, pattern := strings.CutSuffix(r.Queue, "*")
	return r.Queue == "" || r.Queue == queue || pattern && strings.HasPrefix(queue, prefix)
}
