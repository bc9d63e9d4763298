package main

import (
	"context"
	"fmt"

	"github.com/lockstep-pg/lockstep/store"
)

type grantCommand struct {
	Producer grantProducer `cmd:"" help:"Let a role enqueue."`
	Worker   grantWorker   `cmd:"" help:"Let a role run dispatchers."`
	Operator grantOperator `cmd:"" help:"Let a role do what people do: cancel, replay, discard, unblock, set policies; and read everything."`
	Reader   grantReader   `cmd:"" help:"Let a role read the views, without payloads."`
	Tenant   grantTenant   `cmd:"" help:"Let a role enqueue and see the jobs of the one tenant that its session carries. Turns row-level security on."`
}

// roleFlags name a role.
type roleFlags struct {
	databaseFlags

	Role word `arg:"" help:"The database role."`
}

// give makes a grant, and tells.
func (f roleFlags) give(a *app, part string, grant func(*store.Store, context.Context, string) error) error {
	return f.use(a, func(db *store.Store) error {
		if err := grant(db, a.ctx, string(f.Role)); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.stdout, "%s: %s\n", f.Role, part)
		return err
	})
}

type grantProducer struct{ roleFlags }

// Run grants the part of a producer.
func (c *grantProducer) Run(a *app) error { return c.give(a, "producer", (*store.Store).GrantProducer) }

type grantWorker struct{ roleFlags }

// Run grants the part of a worker.
func (c *grantWorker) Run(a *app) error { return c.give(a, "worker", (*store.Store).GrantWorker) }

type grantOperator struct{ roleFlags }

// Run grants the part of an operator.
func (c *grantOperator) Run(a *app) error { return c.give(a, "operator", (*store.Store).GrantOperator) }

type grantReader struct {
	roleFlags

	Payload bool `help:"Payloads, headers and results too."`
}

// Run grants the part of a reader.
func (c *grantReader) Run(a *app) error {
	part := "reader"
	if c.Payload {
		part = "reader with payload"
	}
	return c.give(a, part, func(db *store.Store, ctx context.Context, role string) error {
		return db.GrantReader(ctx, role, c.Payload)
	})
}

type grantTenant struct{ roleFlags }

// Run grants the part of a tenant.
func (c *grantTenant) Run(a *app) error { return c.give(a, "tenant", (*store.Store).GrantTenant) }

type revokeCommand struct{ roleFlags }

// Run takes everything back.
func (c *revokeCommand) Run(a *app) error { return c.give(a, "revoked", (*store.Store).RevokeRole) }
