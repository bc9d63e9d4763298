package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/lockstep-pg/lockstep/store"
)

// newJob is a job to enqueue, for the API's description: store.ParseJob reads it.
type newJob struct {
	Kind           string            `json:"kind" minLength:"1" maxLength:"200" doc:"Which handler runs it. Up to 200 bytes."`
	Payload        json.RawMessage   `json:"payload,omitempty" doc:"Any JSON, up to 1 MiB unless the limit was moved; {} by default. Numbers keep their digits."`
	Queue          *string           `json:"queue,omitempty" minLength:"1" maxLength:"200" doc:"default by default."`
	Tenant         *string           `json:"tenant,omitempty" minLength:"1" maxLength:"200"`
	OrderingKey    *string           `json:"ordering_key,omitempty" minLength:"1" maxLength:"1000" doc:"Jobs of one queue, tenant and ordering key run one at a time, in commit order."`
	Priority       *int32            `json:"priority,omitempty" minimum:"-9" maximum:"9" doc:"Higher first; 0 by default."`
	RunAt          *time.Time        `json:"run_at,omitempty" doc:"When it falls due; now by default. Not with delay."`
	Delay          *string           `json:"delay,omitempty" example:"90s" doc:"How long from now it falls due, as in 90s or 1h30m."`
	MaxAttempts    *int32            `json:"max_attempts,omitempty" minimum:"1" maximum:"32767" doc:"How often it may start; 12 by default."`
	DedupeKey      *string           `json:"dedupe_key,omitempty" minLength:"1" maxLength:"1000" doc:"At most one unfinished job of a queue and tenant has it."`
	Dedupe         *string           `json:"dedupe,omitempty" enum:"reject,replace,one_more" doc:"What happens if the dedupe key is taken."`
	IdempotencyKey *string           `json:"idempotency_key,omitempty" minLength:"1" maxLength:"1000" doc:"As the header Idempotency-Key."`
	Headers        map[string]string `json:"headers,omitempty" doc:"Travel beside the payload. Up to 64 KiB."`
}

// enqueued is the answer for a job: the same for every repetition of a request.
type enqueued struct {
	ID   int64  `json:"id"`
	Href string `json:"href" doc:"Where it can be read."`
}

func hrefOf(id int64) string { return fmt.Sprintf("/v1/jobs/%d", id) }

type enqueueIn struct {
	Key  string `header:"Idempotency-Key" doc:"A request that is repeated with the same key makes one job, and is answered with it. Kept for 7 days unless set otherwise."`
	JSON raw
}

// Resolve refuses a key that is given and empty: it got lost, and a repeated
// request would make a second job.
func (in *enqueueIn) Resolve(ctx huma.Context) []error {
	r, _ := humago.Unwrap(ctx)
	if in.Key == "" && r.Header.Values("Idempotency-Key") != nil {
		return []error{&bodyError{http.StatusUnprocessableEntity, "header.Idempotency-Key", store.EmptyText("idempotency_key")}}
	}
	return nil
}

type enqueueOut struct {
	Status   int
	Location string `header:"Location"`
	Outcome  string `header:"Lockstep-Outcome" doc:"created, existing (its dedupe key is taken), noted (that job gets this payload) or repeated (the same request was made before)"`
	Body     enqueued
}

func (a *API) enqueueRoutes() {
	post[enqueueIn, enqueueOut, newJob](a, huma.Operation{
		OperationID: "enqueue", Path: "/v1/jobs", Summary: "Enqueue a job", DefaultStatus: http.StatusCreated,
		Description: "201 for a new job, 200 for one that was there, 409 if the idempotency key was given with another request.",
	}, a.config.Timeout, a.enqueue)
	responses := a.huma.OpenAPI().Paths["/v1/jobs"].Post.Responses
	responses["200"] = &huma.Response{Description: "The job was there", Headers: responses["201"].Headers, Content: responses["201"].Content}
	a.batchRoute()
}

func (a *API) enqueue(ctx context.Context, in *enqueueIn) (*enqueueOut, error) {
	job, err := parseJob(in.JSON.bytes, in.Key)
	if err != nil {
		return nil, err
	}
	e, err := a.store.Enqueue(ctx, job)
	if err != nil {
		return nil, err
	}
	out := &enqueueOut{Status: http.StatusOK, Location: hrefOf(e.ID), Outcome: string(e.Outcome), Body: enqueued{e.ID, hrefOf(e.ID)}}
	if e.Created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// parseJob reads a job; key is the idempotency key of its request, if any.
func parseJob(data []byte, key string) (store.NewJob, error) {
	job, err := store.ParseJob(data)
	var field *store.FieldError
	switch {
	case errors.As(err, &field):
		return job, field
	case err != nil:
		return job, newProblem(http.StatusBadRequest, "body", err.Error()+"; /openapi.json shows what it may hold")
	case key != "" && job.IdempotencyKey != "" && key != job.IdempotencyKey:
		return job, newProblem(http.StatusUnprocessableEntity, "body.idempotency_key", "it differs from the header Idempotency-Key; give one of them")
	case key != "":
		job.IdempotencyKey = key
	}
	return job, nil
}
