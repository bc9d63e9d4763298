package web

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lockstep-pg/lockstep/store"
)

// queue is a queue with jobs, settings or a pause.
type queue struct {
	Name          string                `json:"name"`
	OnDead        store.OnDead          `json:"on_dead" doc:"What a dead head does to its lane: skip or block."`
	BackoffBase   float64               `json:"backoff_base_seconds"`
	BackoffFactor float64               `json:"backoff_factor"`
	BackoffCap    float64               `json:"backoff_cap_seconds"`
	Paused        bool                  `json:"paused"`
	Reason        string                `json:"reason,omitempty" doc:"Why it is paused."`
	Jobs          map[store.State]int64 `json:"jobs" doc:"By state, as counted at most 5 s ago, or the last time."`
}

// pause is a pause that stands, or is to.
type pause struct {
	Queue       string    `json:"queue,omitempty"`
	Kind        string    `json:"kind,omitempty"`
	Tenant      string    `json:"tenant,omitempty"`
	OrderingKey string    `json:"ordering_key,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	By          string    `json:"paused_by,omitempty"`
	At          time.Time `json:"paused_at"`
}

type (
	queueList struct {
		Queues []queue `json:"queues" nullable:"false"`
		Next   string  `json:"next,omitempty" doc:"Give it as after, for the next page; none on the last one."`
	}
	queuesOut struct{ Body queueList }
	pauseList struct {
		Pauses []pause `json:"pauses" nullable:"false"`
	}
	pausesOut struct{ Body pauseList }

	policyBody struct {
		Name          string   `json:"name" minLength:"1" maxLength:"200"`
		OnDead        *string  `json:"on_dead,omitempty" enum:"skip,block"`
		BackoffBase   *string  `json:"backoff_base,omitempty" example:"5s"`
		BackoffFactor *float64 `json:"backoff_factor,omitempty" minimum:"1" maximum:"1000"`
		BackoffCap    *string  `json:"backoff_cap,omitempty" example:"1h"`
		DeadRetention *string  `json:"dead_retention,omitempty" example:"720h" doc:"How long dead letters are kept that block no lane; 0s: until somebody discards them."`
	}
	policyIn  struct{ JSON object[policyBody] }
	policySet struct {
		Name string `json:"name"`
		Left int    `json:"left" doc:"Blocked lanes that could not go on yet, after a change to skip: ask again."`
	}
	policyOut struct{ Body policySet }

	// What a pause covers: a queue; a kind or a tenant, everywhere or in a
	// queue; or an ordering key of a queue, and a tenant if it has one.
	pauseBody struct {
		Queue       *string `json:"queue,omitempty" minLength:"1" maxLength:"200"`
		Kind        *string `json:"kind,omitempty" minLength:"1" maxLength:"200"`
		Tenant      *string `json:"tenant,omitempty" minLength:"1" maxLength:"200"`
		OrderingKey *string `json:"ordering_key,omitempty" minLength:"1" maxLength:"1000"`
		Reason      *string `json:"reason,omitempty" maxLength:"2000"`
		By          *string `json:"paused_by,omitempty" maxLength:"200" doc:"Who pauses; the role of the database session by default."`
	}
	pauseIn  struct{ JSON object[pauseBody] }
	pauseSet struct {
		State string `json:"state" doc:"paused, or already: the pause that stands keeps its note."`
	}
	pauseOut   struct{ Body pauseSet }
	resumeBody struct {
		Queue       *string `json:"queue,omitempty" minLength:"1" maxLength:"200"`
		Kind        *string `json:"kind,omitempty" minLength:"1" maxLength:"200"`
		Tenant      *string `json:"tenant,omitempty" minLength:"1" maxLength:"200"`
		OrderingKey *string `json:"ordering_key,omitempty" minLength:"1" maxLength:"1000"`
	}
	resumeIn  struct{ JSON object[resumeBody] }
	resumeSet struct {
		State    string `json:"state" doc:"resumed, or not paused"`
		Returned int    `json:"returned" doc:"Parked jobs that were returned to the ready line."`
		More     bool   `json:"more" doc:"Some are left: dispatchers return them, and so does another call."`
	}
	resumeOut struct{ Body resumeSet }
)

func (a *API) queueRoutes() {
	route(a, huma.Operation{
		OperationID: "listQueues", Method: http.MethodGet, Path: "/v1/queues", Summary: "List queues by name, with policies, pauses and counts",
	}, a.config.Timeout, a.listQueues)
	post[policyIn, policyOut, policyBody](a, huma.Operation{
		OperationID: "setQueue", Path: "/v1/queues", Summary: "Set policies of a queue", Description: "What is left out stays as it is.",
	}, a.config.Timeout, a.setQueue)
	route(a, huma.Operation{
		OperationID: "listPauses", Method: http.MethodGet, Path: "/v1/pauses", Summary: "The pauses that stand, the oldest first",
	}, a.config.Timeout, a.listPauses)
	post[pauseIn, pauseOut, pauseBody](a, huma.Operation{
		OperationID: "pause", Path: "/v1/pause", Summary: "Pause a queue, a kind, a tenant or an ordering key",
		Description: "No job of it is started from then on; what runs, runs on.",
	}, a.config.Timeout, func(ctx context.Context, in *pauseIn) (*pauseOut, error) {
		b := in.JSON.value
		scope, err := scopeOf(b.Queue, b.Kind, b.Tenant, b.OrderingKey)
		if err != nil {
			return nil, err
		}
		fresh, err := a.store.Pause(ctx, scope, store.PauseNote{Reason: orZero(b.Reason), By: orZero(b.By)})
		if !fresh {
			return &pauseOut{pauseSet{"already"}}, err
		}
		return &pauseOut{pauseSet{"paused"}}, err
	})
	post[resumeIn, resumeOut, resumeBody](a, huma.Operation{
		OperationID: "resume", Path: "/v1/resume", Summary: "End exactly this pause",
	}, a.config.Timeout, func(ctx context.Context, in *resumeIn) (*resumeOut, error) {
		b := in.JSON.value
		scope, err := scopeOf(b.Queue, b.Kind, b.Tenant, b.OrderingKey)
		if err != nil {
			return nil, err
		}
		r, err := a.store.Resume(ctx, scope)
		state := "not paused"
		if r.WasPaused {
			state = "resumed"
		}
		return &resumeOut{resumeSet{state, r.Returned, r.More}}, err
	})
}

// scopeOf is what a pause covers.
func scopeOf(queue, kind, tenant, orderingKey *string) (store.Scope, error) {
	return store.Scope{Queue: orZero(queue), Kind: orZero(kind), Tenant: orZero(tenant), OrderingKey: orZero(orderingKey)},
		notEmpty(map[string]*string{"queue": queue, "kind": kind, "tenant": tenant, "ordering_key": orderingKey})
}

func orZero[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

func (a *API) listQueues(ctx context.Context, in *Page) (*queuesOut, error) {
	all, err := a.store.Queues(ctx, in.After, in.Limit+1)
	out := &queuesOut{queueList{Queues: make([]queue, 0, len(all))}}
	for _, q := range all[:min(len(all), in.Limit)] {
		out.Body.Queues = append(out.Body.Queues, queue{
			q.Name, q.OnDead, q.BackoffBase.Seconds(), q.BackoffFactor, q.BackoffCap.Seconds(), q.Paused, q.Reason, q.Jobs,
		})
	}
	if len(all) > in.Limit {
		out.Body.Next = all[in.Limit-1].Name
	}
	return out, err
}

func (a *API) listPauses(ctx context.Context, _ *struct{}) (*pausesOut, error) {
	all, err := a.store.Pauses(ctx)
	out := &pausesOut{pauseList{Pauses: make([]pause, 0, len(all))}}
	for _, p := range all {
		out.Body.Pauses = append(out.Body.Pauses, pause{p.Queue, p.Kind, p.Tenant, p.OrderingKey, p.Reason, p.By, p.At})
	}
	return out, err
}

func (a *API) setQueue(ctx context.Context, in *policyIn) (*policyOut, error) {
	b := in.JSON.value
	var p store.QueuePolicy
	var err error
	if b.OnDead != nil {
		if p.OnDead = store.OnDead(*b.OnDead); p.OnDead == "" {
			return nil, newProblem(http.StatusUnprocessableEntity, "body.on_dead", "it is empty; it must be skip or block")
		}
	}
	if b.BackoffFactor != nil {
		if p.BackoffFactor = *b.BackoffFactor; p.BackoffFactor == 0 {
			return nil, newProblem(http.StatusUnprocessableEntity, "body.backoff_factor", "it is 0; it must be between 1 and 1000")
		}
	}
	if p.BackoffBase, err = duration("backoff_base", b.BackoffBase); err != nil {
		return nil, err
	}
	if p.BackoffCap, err = duration("backoff_cap", b.BackoffCap); err != nil {
		return nil, err
	}
	if p.DeadRetention, err = duration("dead_retention", b.DeadRetention); err != nil {
		return nil, err
	}
	left, err := a.store.SetQueue(ctx, b.Name, p)
	return &policyOut{policySet{b.Name, left}}, err
}

// duration reads a duration of a body; nil if it is left out.
func duration(field string, text *string) (*time.Duration, error) {
	if text == nil {
		return nil, nil
	}
	d, err := time.ParseDuration(*text)
	if err != nil {
		return nil, newProblem(http.StatusUnprocessableEntity, "body."+field, "it must be a duration as in 5s or 1h")
	}
	return &d, nil
}
