package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lockstep-pg/lockstep/store"
)

// job is all that is on record of a job.
type job struct {
	ID          int64           `json:"id"`
	State       store.State     `json:"state" doc:"scheduled, waiting, ready, running, retrying, completed, cancelled or dead"`
	WaitingFor  string          `json:"waiting_for,omitempty" doc:"Why it does not run."`
	Queue       string          `json:"queue"`
	Kind        string          `json:"kind"`
	Tenant      string          `json:"tenant,omitempty"`
	OrderingKey string          `json:"ordering_key,omitempty"`
	Priority    int             `json:"priority"`
	Attempt     int             `json:"attempt" doc:"Attempts started that count."`
	MaxAttempts int             `json:"max_attempts"`
	Fence       int64           `json:"fence,omitempty" doc:"Of the latest claim."`
	Worker      string          `json:"worker,omitempty"`
	RunAt       time.Time       `json:"run_at,omitzero"`
	CreatedAt   time.Time       `json:"created_at"`
	ClaimedAt   time.Time       `json:"claimed_at,omitzero"`
	LeaseUntil  time.Time       `json:"lease_until,omitzero"`
	FinishedAt  time.Time       `json:"finished_at,omitzero"`
	Payload     json.RawMessage `json:"payload,omitempty" doc:"Left out, as headers and result are, if the database role of this server may not read it."`
	Headers     json.RawMessage `json:"headers,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"`
	Error       string          `json:"error,omitempty" doc:"Of the attempt that ended it."`
	Attempts    []attempt       `json:"attempts" nullable:"false" doc:"The latest 100 that did not complete it, the first first."`
}

// attempt is one that did not complete its job.
type attempt struct {
	Attempt   int       `json:"attempt"`
	Outcome   string    `json:"outcome" doc:"failed, dead, lost, released, snoozed or cancelled"`
	Error     string    `json:"error,omitempty"`
	Fence     int64     `json:"fence"`
	Worker    string    `json:"worker"`
	ClaimedAt time.Time `json:"claimed_at"`
	EndedAt   time.Time `json:"ended_at"`
}

// listedJob is a job in a list, without payload, headers and result.
type listedJob struct {
	ID          int64       `json:"id"`
	State       store.State `json:"state"`
	WaitingFor  string      `json:"waiting_for,omitempty"`
	Queue       string      `json:"queue"`
	Kind        string      `json:"kind"`
	Tenant      string      `json:"tenant,omitempty"`
	OrderingKey string      `json:"ordering_key,omitempty"`
	Priority    int         `json:"priority"`
	Attempt     int         `json:"attempt"`
	MaxAttempts int         `json:"max_attempts"`
	RunAt       time.Time   `json:"run_at,omitzero"`
	CreatedAt   time.Time   `json:"created_at"`
	ClaimedAt   time.Time   `json:"claimed_at,omitzero"`
	FinishedAt  time.Time   `json:"finished_at,omitzero"`
	Error       string      `json:"error,omitempty" doc:"Its first 1,000 characters."`
}

type jobList struct {
	Jobs       []listedJob `json:"jobs" nullable:"false"`
	Next       string      `json:"next,omitempty" doc:"Give it as after, for the next page; none on the last one."`
	Count      *int        `json:"count,omitempty" doc:"How many match, counted no further than 10,000."`
	CountAtMax bool        `json:"count_at_max,omitempty" doc:"There are more than that."`
}

// maxAttempts is how many attempts of a job are shown.
const maxAttempts = 100

// maxCount is how far jobs are counted.
const maxCount = 10_000

// Page is how a list is read. huma sees only what is exported.
type Page struct {
	Limit int    `query:"limit" default:"50" minimum:"1" maximum:"200" doc:"Entries in an answer."`
	After string `query:"after" doc:"What the page before told as next."`
}

// Filter is which jobs a list holds.
type Filter struct {
	Queue       string `query:"queue"`
	Kind        string `query:"kind"`
	Tenant      string `query:"tenant"`
	OrderingKey string `query:"ordering_key"`
}

type (
	idIn struct {
		ID int64 `path:"id" minimum:"1"`
	}
	jobOut struct {
		Body job
	}
	jobsIn struct {
		State string `query:"state" enum:"scheduled,waiting,ready,running,retrying,completed,cancelled,dead"`
		Filter
		Page
		Count bool `query:"count" doc:"Tell how many match."`
	}
	jobsOut struct {
		Body jobList
	}
)

func (a *API) jobRoutes() {
	route(a, huma.Operation{
		OperationID: "listJobs", Method: http.MethodGet, Path: "/v1/jobs", Summary: "List jobs, the newest first",
	}, a.config.Timeout, a.listJobs)
	route(a, huma.Operation{
		OperationID: "getJob", Method: http.MethodGet, Path: "/v1/jobs/{id}", Summary: "Where a job stands",
	}, a.config.Timeout, func(ctx context.Context, in *idIn) (*jobOut, error) {
		j, err := a.job(ctx, in.ID)
		return &jobOut{j}, err
	})
	a.waitRoute()
}

// job reads a job, with its attempts, as far as the database role may.
func (a *API) job(ctx context.Context, id int64) (job, error) {
	s, err := a.store.JobStatus(ctx, id)
	if denied(err) {
		s, err = a.store.JobOutline(ctx, id)
	}
	if err != nil {
		return job{}, err
	}
	attempts, err := a.store.Attempts(ctx, id)
	j := job{
		ID: s.ID, State: s.State, WaitingFor: s.WaitingFor, Queue: s.Queue, Kind: s.Kind, Tenant: s.Tenant, OrderingKey: s.OrderingKey,
		Priority: s.Priority, Attempt: s.Attempt, MaxAttempts: s.MaxAttempts, Fence: s.Fence, Worker: s.Worker.String(), RunAt: s.RunAt,
		CreatedAt: s.CreatedAt, ClaimedAt: s.ClaimedAt, LeaseUntil: s.LeaseUntil, FinishedAt: s.FinishedAt,
		Payload: s.Payload, Headers: s.Headers, Result: s.Result, Error: s.Error, Attempts: make([]attempt, 0, len(attempts)),
	}
	for _, t := range attempts[max(0, len(attempts)-maxAttempts):] {
		j.Attempts = append(j.Attempts, attempt{t.Attempt, t.Outcome, t.Error, t.Fence, t.Worker.String(), t.ClaimedAt, t.EndedAt})
	}
	return j, err
}

func (a *API) listJobs(ctx context.Context, in *jobsIn) (*jobsOut, error) {
	before, err := in.id()
	if err != nil {
		return nil, err
	}
	f := store.JobFilter{State: store.State(in.State), Queue: in.Queue, Kind: in.Kind, Tenant: in.Tenant, OrderingKey: in.OrderingKey, Before: before}
	all, err := a.store.Jobs(ctx, f, in.Limit+1)
	if err != nil {
		return nil, err
	}
	out := &jobsOut{jobList{Jobs: make([]listedJob, 0, len(all))}}
	for _, j := range all[:min(len(all), in.Limit)] {
		out.Body.Jobs = append(out.Body.Jobs, listedJob{
			j.ID, j.State, j.WaitingFor, j.Queue, j.Kind, j.Tenant, j.OrderingKey, j.Priority, j.Attempt, j.MaxAttempts,
			j.RunAt, j.CreatedAt, j.ClaimedAt, j.FinishedAt, j.Error,
		})
	}
	if len(all) > in.Limit {
		out.Body.Next = strconv.FormatInt(all[in.Limit-1].ID, 10)
	}
	if in.Count {
		f.Before = 0
		n, err := a.store.JobsMatching(ctx, f, maxCount+1)
		if err != nil {
			return nil, err
		}
		out.Body.CountAtMax = n > maxCount
		n = min(n, maxCount)
		out.Body.Count = &n
	}
	return out, nil
}

// id is the one that the page before ended with; 0: it is the first page.
func (p Page) id() (int64, error) {
	if p.After == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(p.After, 10, 64)
	if err != nil || id < 1 {
		return 0, badCursor()
	}
	return id, nil
}

func badCursor() error {
	return newProblem(http.StatusUnprocessableEntity, "query.after", "it is not what a page told as next; give that, or leave it out")
}
