package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lockstep-pg/lockstep/store"
)

const (
	drainPath = "/v1/drain"
)

// knownDispatcher is a dispatcher that is known to the database.
type knownDispatcher struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Queues    []string  `json:"queues"`
	Kinds     []string  `json:"kinds"`
	Lease     float64   `json:"lease_seconds"`
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at" doc:"Its last heartbeat."`
	Alive     bool      `json:"alive" doc:"That was less than three leases ago."`
}

type (
	dispatcherList struct {
		Dispatchers []knownDispatcher `json:"dispatchers" nullable:"false"`
	}
	dispatchersOut struct{ Body dispatcherList }
	jobStats       struct {
		CountedAt time.Time        `json:"counted_at,omitzero"`
		Counts    []store.JobCount `json:"counts" nullable:"false"`
	}
	statsOut struct{ Body jobStats }
	drainIn  struct {
		MaxTime string `query:"max_time" default:"50s" doc:"When to stop, as in 50s or as a number of seconds; up to 5m."`
	}
	drainOut struct{ Body Drained }
)

func (a *API) fleetRoutes() {
	route(a, huma.Operation{
		OperationID: "listDispatchers", Method: http.MethodGet, Path: "/v1/dispatchers", Summary: "Dispatchers, the youngest first",
	}, a.config.Timeout, a.listDispatchers)
	route(a, huma.Operation{
		OperationID: "stats", Method: http.MethodGet, Path: "/v1/stats", Summary: "Jobs by queue and state",
		Description: "Counted at most once in 5 s over the whole fleet.",
	}, a.config.Timeout, func(ctx context.Context, _ *struct{}) (*statsOut, error) {
		c, err := a.store.CountJobs(ctx, countEvery)
		if c.Counts == nil {
			c.Counts = []store.JobCount{}
		}
		return &statsOut{jobStats(c)}, err
	})
	if a.config.Drain == nil {
		return
	}
	route(a, huma.Operation{
		OperationID: "drain", Method: http.MethodPost, Path: drainPath, Summary: "Work until nothing is ready, or the time is over",
		Description: "For a cron tick, or a platform's function. 503 if too many drain.",
	}, longestRequest, a.drain)
}

func (a *API) listDispatchers(ctx context.Context, _ *struct{}) (*dispatchersOut, error) {
	all, err := a.store.Dispatchers(ctx)
	out := &dispatchersOut{dispatcherList{Dispatchers: make([]knownDispatcher, 0, len(all))}}
	for _, d := range all {
		out.Body.Dispatchers = append(out.Body.Dispatchers, knownDispatcher{
			d.ID.String(), d.Name, d.Queues, d.Kinds, d.Lease.Seconds(), d.StartedAt, d.SeenAt, d.Alive,
		})
	}
	return out, err
}

func (a *API) drain(ctx context.Context, in *drainIn) (*drainOut, error) {
	longest, err := span(in.MaxTime)
	if err != nil || longest <= 0 || longest > longestWait {
		return nil, newProblem(http.StatusUnprocessableEntity, "query.max_time", "it must be a time as in 50s, above 0 and up to 5m")
	}
	release, ok := a.drains.take()
	if !ok {
		return nil, newProblem(http.StatusServiceUnavailable, "", fmt.Sprintf("%d drains are under way, and no more may be at a time; they do the work, or send it again when one has ended", cap(a.drains)))
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	done, err := a.config.Drain(ctx)
	return &drainOut{done}, err
}
