package web

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockstep-pg/lockstep/store"
)

// problem is an error of the API, by RFC 9457: detail says what was wrong and
// what to do, errors where.
type problem = huma.ErrorModel

// newProblem is a problem at a place of the request, such as body.kind; "" is
// none in particular.
func newProblem(status int, location, detail string) *problem {
	p := &problem{Status: status, Title: http.StatusText(status), Detail: detail}
	if location != "" {
		p.Errors = []*huma.ErrorDetail{{Location: location, Message: detail}}
	}
	return p
}

func writeProblem(w http.ResponseWriter, p *problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client has gone
}

// kinds of errors: where they come from, their SQLSTATE, and what they are in
// HTTP. docs/errors.md has the same table.
var kinds = []struct {
	sentinel error
	code     string
	status   int
}{
	{store.ErrIsolation, "LS001", http.StatusInternalServerError},
	{store.ErrInvalid, "LS002", http.StatusUnprocessableEntity},
	{store.ErrClaimLost, "LS003", http.StatusConflict},
	{store.ErrLaneLocked, "LS004", http.StatusServiceUnavailable},
	{store.ErrNotFound, "LS005", http.StatusNotFound},
	{store.ErrState, "LS006", http.StatusConflict},
	{store.ErrHidden, "LS007", http.StatusInternalServerError},
	{store.ErrKeyReused, "LS008", http.StatusConflict},
	{store.ErrNotHome, "LS009", http.StatusConflict},
}

// problem is what an error is in HTTP. One that nobody expected is logged. What
// a field is called in SQL stands in the query of a GET.
func (a *API) problem(ctx context.Context, err error, method string) error {
	p := a.describe(ctx, err)
	if method == http.MethodGet {
		for _, e := range p.Errors {
			e.Location = strings.Replace(e.Location, "body.", "query.", 1)
		}
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		return huma.ErrorWithHeaders(p, http.Header{"Retry-After": {"1"}})
	}
	return p
}

func (a *API) describe(ctx context.Context, err error) *problem {
	var ready *problem
	var field *store.FieldError
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.As(err, &field):
		return fieldProblem(field)
	case errors.Is(err, store.ErrBusy):
		return newProblem(http.StatusServiceUnavailable, "", "another transaction has the row locked, and nothing was changed; send it again")
	case store.NotifyQueueFull(err):
		return newProblem(http.StatusServiceUnavailable, "", "the server's queue of notifications is full, and nothing was changed; /readyz tells who may keep it so, send it again later")
	}
	for _, k := range kinds {
		if errors.Is(err, k.sentinel) {
			p := newProblem(k.status, "", err.Error())
			p.Type = "urn:lockstep:" + k.code
			return p
		}
	}
	if errors.As(err, &pg) && pg.Code != "57014" && pg.Code[:2] != "57" && pg.Code[:2] != "53" && pg.Code[:2] != "08" {
		a.config.Logger.ErrorContext(ctx, "the database refused a request", "sqlstate", pg.Code, "error", pg.Message)
		return newProblem(http.StatusInternalServerError, "", "the database refused this with SQLSTATE "+pg.Code+"; the log says why")
	}
	return a.away(ctx, err)
}

// away is the problem of a database that does not answer, or not in time.
func (a *API) away(ctx context.Context, err error) *problem {
	var network net.Error
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case ctx.Err() != nil, errors.As(err, &network) && network.Timeout(), errors.As(err, &pg) && pg.Code == "57014":
		return newProblem(http.StatusServiceUnavailable, "", "it took too long, and was given up; ask for less, or send it again: a repeated enqueue needs its Idempotency-Key to make one job")
	case errors.As(err, &pg), errors.As(err, &connect), errors.As(err, &network), pgconn.SafeToRetry(err):
		return newProblem(http.StatusServiceUnavailable, "", "the database can't be reached; send it again: a repeated enqueue needs its Idempotency-Key to make one job")
	}
	a.config.Logger.ErrorContext(ctx, "a request failed", "error", err)
	return newProblem(http.StatusInternalServerError, "", "the request failed here; the log says why")
}

// fieldProblem is the problem of a value. What the schema's limits find too
// long is that, and not a wrong value.
func fieldProblem(field *store.FieldError) *problem {
	p := newProblem(http.StatusUnprocessableEntity, "body."+field.Field, field.Error())
	p.Type = "urn:lockstep:LS002"
	var pg *pgconn.PgError
	switch {
	case errors.Is(field, store.ErrKeyReused):
		p.Status, p.Type = http.StatusConflict, "urn:lockstep:LS008"
	case errors.As(field, &pg) && field.Field == "payload": // JSON it is: the server was asked
		p.Status = http.StatusRequestEntityTooLarge
	}
	p.Title = http.StatusText(p.Status)
	return p
}
