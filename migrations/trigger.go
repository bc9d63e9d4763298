package migrations

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// requiredTriggers are those of the table job that the files make.
var requiredTriggers = []string{"job_enter", "job_place", "job_signal", "job_size"}

// TriggerState tells whether a trigger fires.
type TriggerState string

// The states a trigger can be in. Of those that exist, the first two fire for
// ordinary sessions.
const (
	TriggerEnabled     TriggerState = "enabled"
	TriggerAlways      TriggerState = "always"
	TriggerReplicaOnly TriggerState = "replica only"
	TriggerDisabled    TriggerState = "disabled"
	TriggerMissing     TriggerState = "missing"
)

// Trigger is a trigger of the table job.
type Trigger struct {
	Name  string
	State TriggerState
}

// problem is what is wrong with a trigger that does not fire.
func (t Trigger) problem() error {
	if t.State == TriggerEnabled || t.State == TriggerAlways {
		return nil
	}
	return fmt.Errorf("%w: %s is %s", ErrTrigger, t.Name, t.State)
}

// triggers looks up every trigger that the schema needs.
func (r *run) triggers(ctx context.Context) ([]Trigger, error) {
	rows, err := r.conn.Query(ctx, `
		select tgname::text, case tgenabled
			when 'O' then 'enabled' when 'A' then 'always' when 'R' then 'replica only' else 'disabled' end
		from pg_catalog.pg_trigger
		join pg_catalog.pg_class on pg_class.oid = tgrelid
		join pg_catalog.pg_namespace on pg_namespace.oid = relnamespace
		where nspname = $1 and relname = 'job' and not tgisinternal`,
		pgx.QueryExecModeExec, r.config.Schema)
	if err != nil {
		return nil, fmt.Errorf("reading the triggers: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Trigger])
	if err != nil {
		return nil, fmt.Errorf("reading the triggers: %w", err)
	}
	var triggers []Trigger
	for _, name := range requiredTriggers {
		at := slices.IndexFunc(found, func(t Trigger) bool { return t.Name == name })
		if at < 0 {
			triggers = append(triggers, Trigger{Name: name, State: TriggerMissing})
			continue
		}
		triggers = append(triggers, found[at])
	}
	return triggers, nil
}

// rowSecurityForced tells whether row level security holds for the owner of
// the table job too, as whom the functions run.
func (r *run) rowSecurityForced(ctx context.Context) (forced bool, err error) {
	err = r.conn.QueryRow(ctx, `
		select coalesce(bool_or(relforcerowsecurity), false)
		from pg_catalog.pg_class join pg_catalog.pg_namespace on pg_namespace.oid = relnamespace
		where nspname = $1 and relname = 'job'`,
		pgx.QueryExecModeExec, r.config.Schema).Scan(&forced)
	if err != nil {
		return false, fmt.Errorf("reading the table's row security: %w", err)
	}
	return forced, nil
}
