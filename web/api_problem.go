package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	if again(p) {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client has gone
}

// again tells whether the same request may do better in a moment.
func again(p *problem) bool {
	return p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests
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
func (a *API) problem(ctx context.Context, err error, method, path string) error {
	p := a.describe(ctx, err, partOf(method, path))
	if method == http.MethodGet {
		for _, e := range p.Errors {
			e.Location = strings.Replace(e.Location, "body.", "query.", 1)
		}
	}
	if again(p) {
		return huma.ErrorWithHeaders(p, http.Header{"Retry-After": {"1"}})
	}
	return p
}

// producer is the part of a role that enqueues.
const producer = "producer"

// partOf is the part of docs/roles.md that a route needs.
func partOf(method, path string) string {
	switch {
	case path == "/v1/jobs" && method == http.MethodPost:
		return producer
	case method == http.MethodGet:
		return "reader"
	default:
		return "operator"
	}
}

// describe is the problem of an error; part is what a role needs that may do
// what was tried.
func (a *API) describe(ctx context.Context, err error, part string) *problem {
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
	if errors.As(err, &pg) {
		return a.refused(ctx, pg, part)
	}
	return a.away(ctx, err)
}

// refused is the problem of an SQLSTATE that is not ours.
func (a *API) refused(ctx context.Context, err *pgconn.PgError, part string) *problem {
	switch class := err.Code[:min(2, len(err.Code))]; {
	case err.Code == noPrivilege:
		return newProblem(http.StatusForbidden, "", fmt.Sprintf("the database role of this server may not do this (%s); the schema's owner can let it: lockstep grant %s", err.Message, part))
	case err.Code == "57014":
		return tookTooLong()
	case err.Code == "25006": // read_only_sql_transaction
		return newProblem(http.StatusServiceUnavailable, "", "the database only reads, as a standby does, and nothing was changed; send it again, or have this server use the primary")
	case class == "40", err.Code == "55P03": // a deadlock, a lock that was not to be had
		return newProblem(http.StatusServiceUnavailable, "", "another transaction was in the way, and nothing was changed; send it again")
	case class == "08", class == "53", class == "57":
		return unreachable()
	}
	a.config.Logger.ErrorContext(ctx, "the database refused a request", "sqlstate", err.Code, "error", err.Message)
	return newProblem(http.StatusInternalServerError, "", "the database refused this with SQLSTATE "+err.Code+"; the log says why")
}

const noPrivilege = "42501" // insufficient_privilege

// denied tells whether the database role lacks a right.
func denied(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == noPrivilege
}

// away is the problem of a database that does not answer, or not in time.
func (a *API) away(ctx context.Context, err error) *problem {
	var network net.Error
	var connect *pgconn.ConnectError
	switch {
	case ctx.Err() != nil, errors.As(err, &network) && network.Timeout():
		return tookTooLong()
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, pgconn.ErrConnClosed), pgconn.SafeToRetry(err):
		return unreachable()
	}
	a.config.Logger.ErrorContext(ctx, "a request failed", "error", err)
	return newProblem(http.StatusInternalServerError, "", "the request failed here; the log says why")
}

func tookTooLong() *problem {
	return newProblem(http.StatusServiceUnavailable, "", "it took too long, and was given up; ask for less, or send it again: a repeated enqueue needs its Idempotency-Key to make one job")
}

func unreachable() *problem {
	return newProblem(http.StatusServiceUnavailable, "", "the database can't be reached; send it again: a repeated enqueue needs its Idempotency-Key to make one job")
}

// tellDetail puts into detail what errors say, where huma says only that
// something is wrong.
func tellDetail(_ huma.Context, _ string, answer any) (any, error) {
	if p, ok := answer.(*problem); ok && len(p.Errors) > 0 && !strings.Contains(p.Detail, p.Errors[0].Message) {
		p.Detail = p.Errors[0].Location + ": " + p.Errors[0].Message
	}
	return answer, nil
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
