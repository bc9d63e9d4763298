package web

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lockstep-pg/lockstep/store"
)

const (
	longestWait = 5 * time.Minute
	// longestRequest is the longest time that the handling of a request may take.
	longestRequest = longestWait + time.Minute
	// A waiting request looks at its job first so soon, and then ever more
	// seldom, down to the other.
	firstLook = 20 * time.Millisecond
	lastLook  = time.Second
)

type (
	waitIn struct {
		ID      int64  `path:"id" minimum:"1"`
		Timeout string `query:"timeout" default:"30s" doc:"How long to wait, as in 30s or as a number of seconds; up to 5m."`
	}
	waitOut struct {
		Status int
		Body   job
	}
)

func (a *API) waitRoute() {
	const path = "/v1/jobs/{id}/wait"
	route(a, huma.Operation{
		OperationID: "waitForJob", Method: http.MethodGet, Path: path, Summary: "Wait for a job's end",
		Description: "200 when it has ended (completed, cancelled or dead); 202, with the job as it stands, when the time is over. 429 if too many wait.",
	}, longestRequest, a.wait)
	responses := a.huma.OpenAPI().Paths[path].Get.Responses
	responses["202"] = &huma.Response{Description: "It has not ended yet", Content: responses["200"].Content}
}

func (a *API) wait(ctx context.Context, in *waitIn) (*waitOut, error) {
	longest, err := span(in.Timeout)
	if err != nil || longest < 0 || longest > longestWait {
		return nil, newProblem(http.StatusUnprocessableEntity, "query.timeout", "it must be a time as in 30s, 0s to 5m")
	}
	release, ok := a.waiters.take()
	if !ok {
		return nil, newProblem(http.StatusTooManyRequests, "", "too many requests wait for jobs; ask /v1/jobs/{id} now and then instead")
	}
	defer release()
	return a.waitFor(ctx, in.ID, longest)
}

// span reads a time as in 30s, or a number of seconds.
func span(text string) (time.Duration, error) {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, -1), 1<<30)) * time.Second, nil
	}
	return time.ParseDuration(text)
}

// waitFor looks at a job until it has ended, or the time is over.
func (a *API) waitFor(ctx context.Context, id int64, longest time.Duration) (*waitOut, error) {
	over := time.NewTimer(longest)
	defer over.Stop()
	for look := firstLook; ; look = min(2*look, lastLook) {
		s, err := a.state(ctx, id)
		if err != nil {
			return nil, err
		}
		if ended(s) {
			return a.waited(ctx, id, http.StatusOK)
		}
		next := time.NewTimer(look)
		select {
		case <-next.C:
			continue
		case <-over.C:
		case <-a.stopped:
		case <-ctx.Done():
		}
		next.Stop()
		return a.waited(ctx, id, http.StatusAccepted)
	}
}

func (a *API) state(ctx context.Context, id int64) (store.State, error) {
	ctx, cancel := context.WithTimeout(ctx, a.config.Timeout)
	defer cancel()
	s, err := a.store.JobOutline(ctx, id)
	return s.State, err
}

func (a *API) waited(ctx context.Context, id int64, status int) (*waitOut, error) {
	ctx, cancel := context.WithTimeout(ctx, a.config.Timeout)
	defer cancel()
	j, err := a.job(ctx, id)
	if ended(j.State) {
		status = http.StatusOK
	}
	return &waitOut{status, j}, err
}

func ended(s store.State) bool {
	return s == store.StateCompleted || s == store.StateCancelled || s == store.StateDead
}
