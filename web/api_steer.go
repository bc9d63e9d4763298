package web

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lockstep-pg/lockstep/store"
)

// stood is what a change of a job came to.
type stood struct {
	ID    int64  `json:"id"`
	State string `json:"state" doc:"What it came to."`
}

type stoodOut struct {
	Body stood
}

type (
	rescheduleBody struct {
		RunAt *time.Time `json:"run_at,omitempty" doc:"When it falls due; a time that is past is now."`
		Delay *string    `json:"delay,omitempty" example:"90s" doc:"How long from now, as in 90s or 1h30m."`
	}
	rescheduleIn struct {
		ID   int64 `path:"id" minimum:"1"`
		JSON object[rescheduleBody]
	}
	priorityBody struct {
		Priority *int32 `json:"priority" required:"true" nullable:"false" minimum:"-9" maximum:"9"`
	}
	priorityIn struct {
		ID   int64 `path:"id" minimum:"1"`
		JSON object[priorityBody]
	}
)

func (a *API) steerRoutes() {
	a.act("cancelJob", "/v1/jobs/{id}/cancel", "Cancel a job",
		"state is cancelled (it will not run again), requested (its worker was told to end it) or ended (it was over).",
		func(ctx context.Context, id int64) (string, error) {
			state, err := a.store.Cancel(ctx, id)
			return string(state), err
		})
	a.act("retryJob", "/v1/jobs/{id}/retry", "Let a job that is retrying, snoozed or scheduled run at once",
		"state is ready, or due: it joins its lane in a moment.",
		func(ctx context.Context, id int64) (string, error) {
			state, err := a.store.RetryNow(ctx, id)
			return string(state), err
		})
	post[rescheduleIn, stoodOut, rescheduleBody](a, huma.Operation{
		OperationID: "rescheduleJob", Path: "/v1/jobs/{id}/reschedule", Summary: "Give a job another due time",
		Description: "One of run_at and delay. 409 if it runs, has ended, or would change the order of its lane.",
	}, a.config.Timeout, a.reschedule)
	post[priorityIn, stoodOut, priorityBody](a, huma.Operation{
		OperationID: "setPriority", Path: "/v1/jobs/{id}/priority", Summary: "Give a job another priority",
	}, a.config.Timeout, func(ctx context.Context, in *priorityIn) (*stoodOut, error) {
		if in.JSON.value.Priority == nil {
			return nil, newProblem(http.StatusUnprocessableEntity, "body.priority", "it is missing; give a whole number between -9 and 9")
		}
		err := a.store.SetPriority(ctx, in.ID, int(*in.JSON.value.Priority))
		return &stoodOut{stood{in.ID, "changed"}}, err
	})
}

// act registers a route that does one thing to a job and needs nothing more.
func (a *API) act(name, path, summary, description string, do func(ctx context.Context, id int64) (string, error)) {
	route(a, huma.Operation{
		OperationID: name, Method: http.MethodPost, Path: path, Summary: summary, Description: description,
	}, a.config.Timeout, func(ctx context.Context, in *idIn) (*stoodOut, error) {
		state, err := do(ctx, in.ID)
		return &stoodOut{stood{in.ID, state}}, err
	})
}

func (a *API) reschedule(ctx context.Context, in *rescheduleIn) (*stoodOut, error) {
	runAt, delay := in.JSON.value.RunAt, in.JSON.value.Delay
	var state store.State
	var err error
	switch {
	case (runAt == nil) == (delay == nil):
		return nil, newProblem(http.StatusUnprocessableEntity, "body.run_at", "one of run_at and delay must be given")
	case runAt != nil && runAt.IsZero():
		state, err = a.store.RescheduleIn(ctx, in.ID, 0) // long past
	case runAt != nil:
		state, err = a.store.Reschedule(ctx, in.ID, *runAt)
	default:
		d, bad := time.ParseDuration(*delay)
		if bad != nil {
			return nil, newProblem(http.StatusUnprocessableEntity, "body.delay", "it must be a duration as in 90s or 1h30m")
		}
		state, err = a.store.RescheduleIn(ctx, in.ID, d)
	}
	return &stoodOut{stood{in.ID, string(state)}}, err
}
