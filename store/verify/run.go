package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Run verifies a schema. An error means that it could not be read to its end,
// and then the report holds what was found until there; what was found is never
// an error. A line of Config.IDs that is no id is a *LineError.
func Run(ctx context.Context, db DB, config Config) (Report, error) {
	if err := config.validate(); err != nil {
		return Report{}, err
	}
	config = config.withDefaults()
	r := &run{
		reader: reader{db: db, schema: pgx.Identifier{config.Schema}.Sanitize(), timeout: config.StatementTimeout},
		config: config,
		report: Report{
			Schema: config.Schema, Findings: []Finding{}, Notices: []Finding{},
			Totals: make(map[Class]int64), limit: config.Limit,
		},
	}
	err := r.verify(ctx)
	return r.report, err
}

// run is one verification.
type run struct {
	reader
	config Config
	report Report
	facts  facts
	began  time.Time // when the facts were learned
	step   Progress
}

func (r *run) verify(ctx context.Context) error {
	var found *suspects
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"what the server keeps", r.learn},
		{"jobs nobody will run", func(ctx context.Context) (err error) { found, err = r.look(ctx); return err }},
		{"lanes that wait for a person", r.people},
		{"ids in two places", r.identity},
		{"lanes", r.history},
		{"the ids given", r.given},
		{"jobs nobody will run, again", func(ctx context.Context) error { return r.confirm(ctx, found) }},
	} {
		r.step = Progress{Step: step.name}
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("verify: %s: %w", step.name, err)
		}
	}
	return nil
}

// begin tells of a step with rows to read.
func (r *run) begin(total int64) {
	r.step.Rows, r.step.Total = 0, total
	r.config.OnProgress(r.step)
}

// read counts a row.
func (r *run) read() {
	r.step.Rows++
	if r.step.Rows%progressRows == 0 {
		r.config.OnProgress(r.step)
	}
}
