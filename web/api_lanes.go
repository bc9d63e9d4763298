package web

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lockstep-pg/lockstep/store"
)

// lane is a lane with a head.
type lane struct {
	Queue       string      `json:"queue"`
	Tenant      string      `json:"tenant,omitempty"`
	OrderingKey string      `json:"ordering_key"`
	Head        int64       `json:"head" doc:"The job that runs or is to run now."`
	HeadKind    string      `json:"head_kind"`
	HeadState   store.State `json:"head_state" doc:"dead: it blocks the lane."`
	HeadSince   time.Time   `json:"head_created_at"`
	Age         float64     `json:"age_seconds" doc:"How long ago its head was enqueued."`
	Waiting     int64       `json:"waiting" doc:"Jobs behind the head."`
}

type (
	laneList struct {
		Lanes []lane `json:"lanes" nullable:"false"`
		Next  string `json:"next,omitempty" doc:"Give it as after, for the next page; none on the last one."`
	}
	lanesIn struct {
		Queue  string `query:"queue"`
		Tenant string `query:"tenant"`
		Page
	}
	lanesOut    struct{ Body laneList }
	blockedList struct {
		Lanes []store.BlockedLane `json:"lanes" nullable:"false"`
		Next  string              `json:"next,omitempty" doc:"Give it as after, for the next page; none on the last one."`
	}
	blockedIn struct {
		Queue string `query:"queue"`
		Page
	}
	blockedOut struct{ Body blockedList }
	laneBody   struct {
		Queue       *string `json:"queue,omitempty" minLength:"1" maxLength:"200" doc:"default by default."`
		Tenant      *string `json:"tenant,omitempty" maxLength:"200" doc:"None, or empty: the lane is no tenant's."`
		OrderingKey string  `json:"ordering_key" minLength:"1" maxLength:"1000"`
	}
	laneIn  struct{ JSON object[laneBody] }
	laneSet struct {
		WentOn bool `json:"went_on" doc:"false: it will in a moment."`
	}
	laneOut struct{ Body laneSet }
)

func (a *API) laneRoutes() {
	route(a, huma.Operation{
		OperationID: "listLanes", Method: http.MethodGet, Path: "/v1/lanes", Summary: "List lanes by queue, tenant and ordering key, with head, depth and age",
	}, a.config.Timeout, a.listLanes)
	route(a, huma.Operation{
		OperationID: "listBlockedLanes", Method: http.MethodGet, Path: "/v1/lanes/blocked", Summary: "List lanes that a dead head blocks, by their heads",
	}, a.config.Timeout, a.listBlocked)
	post[laneIn, laneOut, laneBody](a, huma.Operation{
		OperationID: "unblockLane", Path: "/v1/lanes/unblock", Summary: "Let a lane go on behind the dead head that blocks it",
		Description: "The dead letter stays.",
	}, a.config.Timeout, onLane(a.store.UnblockLane))
	post[laneIn, laneOut, laneBody](a, huma.Operation{
		OperationID: "skipHead", Path: "/v1/lanes/skip-head", Summary: "Make a lane's head a dead letter, and let the lane go on",
		Description: "Unless it runs: cancel it then.",
	}, a.config.Timeout, onLane(a.store.SkipHead))
}

// onLane is a handler that has something done to the lane of its body.
func onLane(do func(context.Context, store.Lane) (bool, error)) func(context.Context, *laneIn) (*laneOut, error) {
	return func(ctx context.Context, in *laneIn) (*laneOut, error) {
		b := in.JSON.value
		if err := notEmpty(map[string]*string{"queue": b.Queue, "ordering_key": &b.OrderingKey}); err != nil {
			return nil, err
		}
		on, err := do(ctx, store.Lane{Queue: orZero(b.Queue), Tenant: orZero(b.Tenant), OrderingKey: b.OrderingKey})
		return &laneOut{laneSet{on}}, err
	}
}

func (a *API) listLanes(ctx context.Context, in *lanesIn) (*lanesOut, error) {
	after, err := laneOf(in.After)
	if err != nil {
		return nil, err
	}
	all, err := a.store.Lanes(ctx, store.LaneFilter{Queue: in.Queue, Tenant: in.Tenant, After: after}, in.Limit+1)
	out := &lanesOut{laneList{Lanes: make([]lane, 0, len(all))}}
	for _, l := range all[:min(len(all), in.Limit)] {
		out.Body.Lanes = append(out.Body.Lanes, lane{
			l.Queue, l.Tenant, l.OrderingKey, l.Head, l.HeadKind, l.HeadState, l.HeadSince, max(0, l.Age.Seconds()), l.Waiting,
		})
	}
	if len(all) > in.Limit {
		out.Body.Next = cursorOf(all[in.Limit-1].Lane)
	}
	return out, err
}

func (a *API) listBlocked(ctx context.Context, in *blockedIn) (*blockedOut, error) {
	after, err := in.id()
	if err != nil {
		return nil, err
	}
	all, err := a.store.ListBlocked(ctx, in.Queue, after, in.Limit+1)
	out := &blockedOut{blockedList{Lanes: append([]store.BlockedLane{}, all[:min(len(all), in.Limit)]...)}}
	if len(all) > in.Limit {
		out.Body.Next = strconv.FormatInt(all[in.Limit-1].Head, 10)
	}
	return out, err
}

// cursorOf is a lane as it stands in next.
func cursorOf(l store.Lane) string {
	text, _ := json.Marshal([]string{l.Queue, l.Tenant, l.OrderingKey})
	return base64.RawURLEncoding.EncodeToString(text)
}

func laneOf(cursor string) (l store.Lane, err error) {
	if cursor == "" {
		return l, nil
	}
	var names []string
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(text, &names) != nil || len(names) != 3 {
		return l, badCursor()
	}
	return store.Lane{Queue: names[0], Tenant: names[1], OrderingKey: names[2]}, nil
}
