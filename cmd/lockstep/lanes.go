package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

type lanesCommand struct {
	Blocked lanesBlockedCommand `cmd:"" help:"List the lanes that a dead job holds up."`
	Unblock lanesUnblockCommand `cmd:"" help:"Let a lane go on behind the dead job that blocks it; the dead letter stays."`
	Skip    lanesSkipCommand    `cmd:"" help:"Make a lane's head, if nobody runs it, a dead letter, and let the lane go on."`
}

type lanesBlockedCommand struct {
	databaseFlags

	Queue word `placeholder:"NAME" help:"Of this queue."`
	JSON  bool `name:"json" help:"Print a JSON object a line."`
}

// Run lists blocked lanes, page by page.
func (c *lanesBlockedCommand) Run(a *app) error {
	const page = 100
	return c.use(a, func(db *store.Store) error {
		after := int64(0)
		for {
			lanes, err := db.ListBlocked(a.ctx, string(c.Queue), after, page)
			if err != nil {
				return flagError(err)
			}
			for _, lane := range lanes {
				if err := printItem(a.stdout, c.JSON, lane, blockedLine(lane)); err != nil {
					return err
				}
				after = lane.Head
			}
			if len(lanes) < page {
				return nil
			}
		}
	})
}

// blockedLine is a blocked lane for a person, in one line.
func blockedLine(l store.BlockedLane) string {
	line := fmt.Sprintf("%s\tkey %s", l.Queue, strconv.Quote(l.OrderingKey))
	if l.Tenant != "" {
		line += "\ttenant " + strconv.Quote(l.Tenant)
	}
	return line + fmt.Sprintf("\tjob %d dead since %s\t%d waiting\t%s", l.Head, l.DiedAt.UTC().Format(time.RFC3339), l.Waiting, firstLine(l.Error))
}

// laneFlags name a lane.
type laneFlags struct {
	Queue       word `default:"default" placeholder:"NAME" help:"Queue. Default: default."`
	Tenant      word `placeholder:"NAME" help:"Tenant. Default: none."`
	OrderingKey word `required:"" placeholder:"KEY" help:"Ordering key."`
}

func (f laneFlags) lane() store.Lane {
	return store.Lane{Queue: string(f.Queue), Tenant: string(f.Tenant), OrderingKey: string(f.OrderingKey)}
}

type lanesUnblockCommand struct {
	databaseFlags
	laneFlags
}

// Run unblocks a lane.
func (c *lanesUnblockCommand) Run(a *app) error {
	return c.use(a, func(db *store.Store) error {
		now, err := db.UnblockLane(a.ctx, c.lane())
		return passed(a, now, err)
	})
}

type lanesSkipCommand struct {
	databaseFlags
	laneFlags
}

// Run skips the head of a lane.
func (c *lanesSkipCommand) Run(a *app) error {
	return c.use(a, func(db *store.Store) error {
		now, err := db.SkipHead(a.ctx, c.lane())
		return passed(a, now, err)
	})
}

// passed tells that a lane goes on.
func passed(a *app, now bool, err error) error {
	if err != nil {
		return err
	}
	said := "the lane goes on"
	if !now {
		said += " in a moment"
	}
	_, err = fmt.Fprintln(a.stdout, said)
	return err
}
