package web

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lockstep-pg/lockstep/store"
)

type (
	deadList struct {
		Jobs []store.DeadLetter `json:"jobs" nullable:"false"`
		Next string             `json:"next,omitempty" doc:"Give it as after, for the next page; none on the last one."`
	}
	deadIn struct {
		Filter
		Error      string    `query:"error" doc:"A pattern of LIKE for the error: %timeout%."`
		DiedFrom   time.Time `query:"died_from"`
		DiedBefore time.Time `query:"died_before"`
		Page
	}
	deadOut struct {
		Body deadList
	}
	startReplayBody struct {
		Queue       *string    `json:"queue,omitempty" minLength:"1"`
		Kind        *string    `json:"kind,omitempty" minLength:"1"`
		Tenant      *string    `json:"tenant,omitempty" minLength:"1"`
		OrderingKey *string    `json:"ordering_key,omitempty" minLength:"1"`
		Error       *string    `json:"error,omitempty" minLength:"1" doc:"A pattern of LIKE for the error: %timeout%."`
		DiedFrom    *time.Time `json:"died_from,omitempty"`
		DiedBefore  *time.Time `json:"died_before,omitempty"`
		IDs         []int64    `json:"ids,omitempty" maxItems:"1000" nullable:"false"`
		All         bool       `json:"all,omitempty" doc:"Must be true if no filter and no ids are given."`
		Rate        *float64   `json:"rate,omitempty" exclusiveMinimum:"0" maximum:"1000" doc:"Letters a second, by all processes together; 10 by default."`
		StartedBy   *string    `json:"started_by,omitempty" maxLength:"200"`
	}
	startReplayIn struct {
		JSON object[startReplayBody]
	}
	startedReplay struct {
		ID int64 `json:"id" doc:"By which /v1/replays lists it."`
	}
	startReplayOut struct {
		Body startedReplay
	}
	replayList struct {
		Replays []store.ReplayRun `json:"replays" nullable:"false"`
	}
	replaysOut struct {
		Body replayList
	}
)

func (a *API) deadRoutes() {
	route(a, huma.Operation{
		OperationID: "listDead", Method: http.MethodGet, Path: "/v1/dead", Summary: "List dead letters, the latest first",
	}, a.config.Timeout, a.listDead)
	route(a, huma.Operation{
		OperationID: "getDead", Method: http.MethodGet, Path: "/v1/dead/{id}", Summary: "A dead letter, with payload, error and attempts",
	}, a.config.Timeout, func(ctx context.Context, in *idIn) (*jobOut, error) {
		if _, err := a.store.ShowDead(ctx, in.ID); err != nil && !denied(err) {
			return nil, err
		}
		j, err := a.job(ctx, in.ID)
		if err == nil && j.State != store.StateDead {
			err = fmt.Errorf("%w: job %d is %s, not dead", store.ErrState, j.ID, j.State)
		}
		return &jobOut{j}, err
	})
	a.act("replayDead", "/v1/dead/{id}/replay", "Give a dead job a new budget of attempts",
		"In its place if it blocks its lane, else at the end. state is replayed, or duplicate: an unfinished job has its dedupe key.",
		func(ctx context.Context, id int64) (string, error) {
			state, err := a.store.Replay(ctx, id)
			return string(state), err
		})
	a.act("discardDead", "/v1/dead/{id}/discard", "Forget a dead job; a lane that it blocks goes on", "state is discarded.",
		func(ctx context.Context, id int64) (string, error) { return "discarded", a.store.Discard(ctx, id) })
	a.replayRoutes()
}

// replayRoutes are about replays of many.
func (a *API) replayRoutes() {
	post[startReplayIn, startReplayOut, startReplayBody](a, huma.Operation{
		OperationID: "startReplay", Path: "/v1/dead/replay", Summary: "Have dead letters replayed by filter, at a rate",
		Description: "Those that are there now; those of one lane keep their order. Dispatchers do it from then on.",
	}, a.config.Timeout, a.startReplay)
	route(a, huma.Operation{
		OperationID: "listReplays", Method: http.MethodGet, Path: "/v1/replays", Summary: "Replays that run or are over, the latest first",
	}, a.config.Timeout, func(ctx context.Context, _ *struct{}) (*replaysOut, error) {
		all, err := a.store.Replays(ctx)
		return &replaysOut{replayList{append([]store.ReplayRun{}, all...)}}, err
	})
	a.act("cancelReplay", "/v1/replays/{id}/cancel", "End a replay; the letters it has not come to stay", "state is cancelled, or ended: it was over.",
		func(ctx context.Context, id int64) (string, error) {
			if now, err := a.store.CancelReplay(ctx, id); !now {
				return "ended", err
			}
			return "cancelled", nil
		})
}

func (a *API) listDead(ctx context.Context, in *deadIn) (*deadOut, error) {
	after, err := letterOf(in.After)
	if err != nil {
		return nil, err
	}
	f := store.DeadFilter{
		Queue: in.Queue, Kind: in.Kind, Tenant: in.Tenant, OrderingKey: in.OrderingKey,
		Error: in.Error, DiedFrom: in.DiedFrom, DiedBefore: in.DiedBefore,
	}
	all, err := a.store.ListDead(ctx, f, store.DeadPage{After: after, Limit: in.Limit + 1})
	if err != nil {
		return nil, err
	}
	out := &deadOut{deadList{Jobs: append([]store.DeadLetter{}, all[:min(len(all), in.Limit)]...)}}
	if len(all) > in.Limit {
		out.Body.Next = letterCursor(all[in.Limit-1])
	}
	return out, nil
}

// letterPlace is where a letter stands in the list, as in next.
type letterPlace struct {
	DiedAt time.Time
	ID     int64
}

func letterCursor(l store.DeadLetter) string {
	text, _ := json.Marshal(letterPlace{l.DiedAt, l.ID})
	return base64.RawURLEncoding.EncodeToString(text)
}

func letterOf(cursor string) (*store.DeadLetter, error) {
	if cursor == "" {
		return nil, nil
	}
	var place letterPlace
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(text, &place) != nil || place.DiedAt.IsZero() {
		return nil, badCursor()
	}
	return &store.DeadLetter{ID: place.ID, DiedAt: place.DiedAt}, nil
}

func (a *API) startReplay(ctx context.Context, in *startReplayIn) (*startReplayOut, error) {
	b := in.JSON.value
	if err := notEmpty(map[string]*string{"queue": b.Queue, "kind": b.Kind, "tenant": b.Tenant, "ordering_key": b.OrderingKey, "error": b.Error}); err != nil {
		return nil, err
	}
	r := store.NewReplay{IDs: b.IDs, StartedBy: orZero(b.StartedBy), Filter: store.DeadFilter{
		Queue: orZero(b.Queue), Kind: orZero(b.Kind), Tenant: orZero(b.Tenant), OrderingKey: orZero(b.OrderingKey), Error: orZero(b.Error),
		DiedFrom: orZero(b.DiedFrom), DiedBefore: orZero(b.DiedBefore),
	}}
	if b.DiedBefore != nil && b.DiedBefore.IsZero() { // in store: no bound
		return nil, newProblem(http.StatusUnprocessableEntity, "body.died_before", "no letter died before the year 1; give a later time")
	}
	if b.Rate != nil {
		if r.Rate = *b.Rate; r.Rate == 0 {
			return nil, newProblem(http.StatusUnprocessableEntity, "body.rate", "it is 0; it must be above 0, and at most 1000 letters a second")
		}
	}
	if r.Filter == (store.DeadFilter{}) && b.IDs == nil && !b.All {
		return nil, newProblem(http.StatusUnprocessableEntity, "body.all", "no filter is given; give one, or ids, or all: true for every dead letter")
	}
	id, err := a.store.StartReplay(ctx, r)
	return &startReplayOut{startedReplay{id}}, err
}
