package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

const (
	batchPath = "/v1/jobs/batch"
	// A part is enqueued by one statement, and held in memory.
	partJobs  = 1000
	partBytes = 4 << 20
	// atomicBytes is the longest batch that is enqueued as a whole: it is read to
	// its end first, so that its transaction waits for no client.
	atomicBytes = 64 << 20
	// stepTime is how long a part may take to come, or its answers to go.
	stepTime = 30 * time.Second
)

// answer is what became of an item of a batch, on a line of its own; the last
// line has done.
type answer struct {
	Item    int                  `json:"item,omitempty" doc:"Its place in the batch, from 1."`
	ID      int64                `json:"id,omitempty"`
	Outcome store.EnqueueOutcome `json:"outcome,omitempty"`
	Error   *problem             `json:"error,omitempty" doc:"Why this item was refused; without item: why the batch ended here."`
	Done    bool                 `json:"done,omitempty" doc:"This is the last line, and all items were answered."`
	Items   int                  `json:"items,omitempty" doc:"Items in the batch."`
	Refused int                  `json:"refused,omitempty"`
}

type batchIn struct {
	Atomic bool `query:"atomic" doc:"All jobs or none, in one transaction; up to 64 MiB. Otherwise each item that is good is enqueued."`
}

func (a *API) batchRoute() {
	route(a, huma.Operation{
		OperationID: "enqueueBatch", Method: http.MethodPost, Path: batchPath, Summary: "Enqueue many jobs", DefaultStatus: http.StatusOK,
		Description: "A line of JSON for each job (application/x-ndjson), or a JSON array of them. It is enqueued as it comes, in its order, and answered with a line of JSON for each item: read them while you send. The last line has done: true.",
	}, time.Minute, func(_ context.Context, in *batchIn) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			a.batch(w, r, in.Atomic)
		}}, nil
	})
	documentBody[newJob](a, batchPath, "application/x-ndjson", "application/jsonl", "application/json")
	registry := a.huma.OpenAPI().Components.Schemas
	a.huma.OpenAPI().Paths[batchPath].Post.Responses["200"].Content = map[string]*huma.MediaType{
		"application/x-ndjson": {Schema: registry.Schema(reflect.TypeFor[answer](), true, "")},
	}
}

// batch enqueues what a request brings.
func (a *API) batch(w http.ResponseWriter, r *http.Request, atomic bool) {
	kind, p := checkType(r, "application/x-ndjson", "application/jsonl", "application/json")
	if p != nil {
		writeProblem(w, p.problem())
		return
	}
	if r.Header.Values("Idempotency-Key") != nil {
		writeProblem(w, newProblem(http.StatusUnprocessableEntity, "header.Idempotency-Key", "a batch has no key of its own; give each item its idempotency_key"))
		return
	}
	if atomic && r.ContentLength > atomicBytes {
		writeProblem(w, tooLong(atomicBytes).problem())
		return
	}
	release, ok := a.enter(r.Context(), a.batches)
	if !ok {
		writeProblem(w, newProblem(http.StatusServiceUnavailable, "", "too many batches at a time; send it again in a second"))
		return
	}
	defer release()
	b := &batch{api: a, ctx: r.Context(), control: http.NewResponseController(w), w: w}
	if atomic {
		r.Body = http.MaxBytesReader(w, r.Body, atomicBytes)
	}
	b.items = newItems(r.Body, kind, a.config.MaxBody)
	if atomic {
		b.whole()
		return
	}
	_ = b.control.EnableFullDuplex() // answers go while items come
	b.inParts()
}

// batch is one request's.
type batch struct {
	api     *API
	ctx     context.Context
	control *http.ResponseController
	w       http.ResponseWriter
	items   items
	begun   bool // an answer was sent
	refused int
	out     bytes.Buffer
}

// part is a number of items, and their places.
type part struct {
	jobs   []store.NewJob
	places []int
}

// next reads a part. refuse is told of items that can't be jobs; an error of
// that, or of reading, ends the batch.
func (b *batch) next(refuse func(place int, err error) error) (p part, err error) {
	_ = b.control.SetReadDeadline(time.Now().Add(stepTime))
	for size := 0; len(p.jobs) < partJobs && size < partBytes; {
		item, err := b.items.next()
		if err != nil || item == nil {
			return p, err
		}
		job, err := parseJob(item, "")
		if err != nil {
			if err := refuse(b.items.count(), err); err != nil {
				return p, err
			}
			size += 1 << 10 // its answer
			continue
		}
		p.jobs, p.places = append(p.jobs, job), append(p.places, b.items.count())
		size += len(item)
	}
	return p, nil
}

// inParts enqueues and answers each part as it comes.
func (b *batch) inParts() {
	for {
		before := b.items.count()
		p, err := b.next(b.refuse)
		if failed := b.enqueue(p); failed != nil {
			b.end(failed)
			return
		}
		if err != nil {
			b.end(err)
			return
		}
		if b.items.count() == before { // nothing came any more
			b.answer(answer{Done: true, Items: before, Refused: b.refused})
			_ = b.flush()
			return
		}
		if b.flush() != nil {
			return
		}
	}
}

// enqueue enqueues a part, without the items that are refused.
func (b *batch) enqueue(p part) error {
	for len(p.jobs) > 0 {
		ctx, cancel := context.WithTimeout(b.ctx, stepTime)
		all, err := b.api.store.EnqueueMany(ctx, p.jobs)
		cancel()
		var field *store.FieldError
		if errors.As(err, &field) && field.Ordinal >= 1 && field.Ordinal <= len(p.jobs) {
			bad := field.Ordinal - 1
			if err := b.enqueue(part{p.jobs[:bad], p.places[:bad]}); err != nil {
				return err
			}
			field.Ordinal = 0
			_ = b.refuse(p.places[bad], field)
			p = part{p.jobs[bad+1:], p.places[bad+1:]}
			continue
		}
		if err != nil {
			return fmt.Errorf("items %d to %d: %w", p.places[0], p.places[len(p.places)-1], err)
		}
		for i, e := range all {
			b.answer(answer{Item: p.places[i], ID: e.ID, Outcome: e.Outcome})
		}
		return nil
	}
	return nil
}

// refuse answers for a bad item.
func (b *batch) refuse(place int, err error) error {
	b.refused++
	b.answer(answer{Item: place, Error: b.api.describe(b.ctx, err, producer)})
	return nil
}

// end tells that the batch ends before its time: as the whole answer, if none
// was sent.
func (b *batch) end(err error) {
	p := b.problem(err)
	p.Detail += fmt.Sprintf("; of this batch, items are enqueued that are answered, and of those after them perhaps some; %d were read: repeat those, with an idempotency_key each if they must not be enqueued twice", b.items.count())
	if !b.begun && b.out.Len() == 0 {
		writeProblem(b.w, p)
		return
	}
	b.answer(answer{Error: p})
	_ = b.flush()
}

func (b *batch) problem(err error) *problem {
	var body *bodyError
	if errors.As(err, &body) {
		return body.problem()
	}
	return b.api.describe(b.ctx, err, producer)
}

func (b *batch) answer(line answer) {
	data, _ := json.Marshal(line) // it holds nothing that can't be marshalled
	b.out.Write(append(data, '\n'))
}

// flush sends what was answered.
func (b *batch) flush() error {
	_ = b.control.SetWriteDeadline(time.Now().Add(stepTime))
	if !b.begun {
		b.w.Header().Set("Content-Type", "application/x-ndjson")
		b.w.WriteHeader(http.StatusOK)
		b.begun = true
	}
	if _, err := b.out.WriteTo(b.w); err != nil {
		return err
	}
	return b.control.Flush()
}

// whole enqueues everything in one transaction, or nothing.
func (b *batch) whole() {
	var parts []part
	for {
		before := b.items.count()
		p, err := b.next(func(place int, err error) error { return b.at(place, err) })
		if err != nil {
			writeProblem(b.w, b.problem(err))
			return
		}
		if b.items.count() == before {
			break
		}
		parts = append(parts, p)
	}
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, b.api.config.Pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		for _, p := range parts {
			if err := b.enqueueIn(ctx, tx, p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		p := b.problem(err)
		p.Detail += "; nothing of this batch is enqueued, unless the database was lost while it committed"
		writeProblem(b.w, p)
		return
	}
	b.answer(answer{Done: true, Items: b.items.count()})
	_ = b.flush()
}

// enqueueIn enqueues a part in a transaction.
func (b *batch) enqueueIn(ctx context.Context, tx pgx.Tx, p part) error {
	all, err := store.New(tx).In(b.api.config.Schema).EnqueueMany(ctx, p.jobs)
	var field *store.FieldError
	if errors.As(err, &field) && field.Ordinal >= 1 && field.Ordinal <= len(p.jobs) {
		place := p.places[field.Ordinal-1]
		field.Ordinal = 0
		return b.at(place, field)
	}
	for i, e := range all {
		b.answer(answer{Item: p.places[i], ID: e.ID, Outcome: e.Outcome})
	}
	return err
}

// at says which item was refused.
func (b *batch) at(place int, err error) error {
	p := b.api.describe(b.ctx, err, producer)
	p.Detail = fmt.Sprintf("item %d: %s", place, p.Detail)
	for _, e := range p.Errors {
		e.Location = fmt.Sprintf("item %d: %s", place, e.Location)
	}
	return p
}
