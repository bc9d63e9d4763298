package store

import "context"

// The grants are for the schema's owner. ErrInvalid for a role that there is
// not, and for one that would be a tenant's and something else. docs/roles.md
// has the table of what each part may do.

// GrantProducer lets a role enqueue, by the functions and by a plain INSERT. It
// can't read payloads.
func (s *Store) GrantProducer(ctx context.Context, role string) error {
	return s.call(ctx, `select @schema@.grant_producer(role => $1)`, role)
}

// GrantWorker lets a role claim jobs and report on them: a dispatcher's. If its
// handlers enqueue, it needs GrantProducer too.
func (s *Store) GrantWorker(ctx context.Context, role string) error {
	return s.call(ctx, `select @schema@.grant_worker(role => $1)`, role)
}

// GrantOperator lets a role cancel, replay, discard, unblock, set policies and
// limits, and read everything.
func (s *Store) GrantOperator(ctx context.Context, role string) error {
	return s.call(ctx, `select @schema@.grant_operator(role => $1)`, role)
}

// GrantReader lets a role read the views: payloads, headers and results only
// with payload.
func (s *Store) GrantReader(ctx context.Context, role string, payload bool) error {
	return s.call(ctx, `select @schema@.grant_reader(role => $1, payload => $2)`, role, payload)
}

// GrantTenant lets a role enqueue, see, cancel, replay and discard the jobs of
// the one tenant that its session carries. It turns row-level security on for
// the job table.
func (s *Store) GrantTenant(ctx context.Context, role string) error {
	return s.call(ctx, `select @schema@.grant_tenant(role => $1)`, role)
}

// RevokeRole takes all from a role that the grants gave it.
func (s *Store) RevokeRole(ctx context.Context, role string) error {
	return s.call(ctx, `select @schema@.revoke_role(role => $1)`, role)
}

// call calls a function that answers nothing.
func (s *Store) call(ctx context.Context, statement string, args ...any) error {
	_, err := s.db.Exec(ctx, s.sql(statement), args...)
	return wrap(err)
}
