package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

type deadReplayCommand struct {
	databaseFlags
	deadFilterFlags

	IDs  []int64  `arg:"" optional:"" name:"id" help:"The jobs' ids: they go back at once, in the order given."`
	All  bool     `help:"Without a filter: all dead letters there are."`
	Rate *float64 `placeholder:"N" help:"Letters a second, above 0 to 1000, over all processes. Default: 10."`
	By   word     `placeholder:"NAME" help:"Who has them replayed, for the list of replays. Default: the database user."`
}

// Run replays jobs by their ids, or starts a replay and prints its id.
func (c *deadReplayCommand) Run(a *app) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	filtered := filter != store.DeadFilter{}
	switch {
	case len(c.IDs) > 0 && (filtered || c.All || c.Rate != nil):
		return usage("ids can't be combined with a filter, --all or --rate")
	case len(c.IDs) == 0 && filtered == c.All:
		return usage("dead replay needs ids, a filter, or else --all; see lockstep dead replay --help")
	case c.Rate != nil && *c.Rate == 0:
		return usage("--rate is 0; it must be above 0")
	}
	return c.use(a, func(db *store.Store) error {
		if len(c.IDs) > 0 {
			return each(a, c.IDs, func(id int64) (string, error) {
				state, err := db.Replay(a.ctx, id)
				return string(state), err
			})
		}
		id, err := db.StartReplay(a.ctx, store.NewReplay{Rate: orZero(c.Rate), Filter: filter, StartedBy: string(c.By)})
		if err != nil {
			return flagError(err)
		}
		_, err = fmt.Fprintln(a.stdout, id)
		return err
	})
}

type deadReplaysCommand struct {
	databaseFlags

	JSON bool `name:"json" help:"Print a JSON object a line."`
}

// Run lists replays.
func (c *deadReplaysCommand) Run(a *app) error {
	return c.use(a, func(db *store.Store) error {
		all, err := db.Replays(a.ctx)
		if err != nil {
			return err
		}
		for _, run := range all {
			if err := printItem(a.stdout, c.JSON, run, replayLine(run)); err != nil {
				return err
			}
		}
		return nil
	})
}

// replayLine is a replay for a person, in one line.
func replayLine(r store.ReplayRun) string {
	line := fmt.Sprintf("%d\t%s\t%g a second\t%d replayed\t%d kept\t%d left\tsince %s by %s", r.ID, r.State, r.Rate,
		r.Replayed, r.Kept, r.Remaining, r.StartedAt.UTC().Format(time.RFC3339), firstLine(r.StartedBy))
	var parts []string
	for _, part := range []struct{ name, value string }{
		{"queue", r.Filter.Queue},
		{"kind", r.Filter.Kind},
		{"tenant", r.Filter.Tenant},
		{"key", r.Filter.OrderingKey},
		{"error", r.Filter.Error},
	} {
		if part.value != "" {
			parts = append(parts, fmt.Sprintf("%s %q", part.name, part.value))
		}
	}
	if parts != nil {
		line += "\t" + strings.Join(parts, ", ")
	}
	return line
}

type deadStopCommand struct {
	databaseFlags

	ID int64 `arg:"" help:"The replay's id."`
}

// Run stops a replay.
func (c *deadStopCommand) Run(a *app) error {
	return c.use(a, func(db *store.Store) error {
		stopped, err := db.CancelReplay(a.ctx, c.ID)
		if err != nil {
			return err
		}
		said := "stopped"
		if !stopped {
			said = "was over already"
		}
		_, err = fmt.Fprintf(a.stdout, "%d\t%s\n", c.ID, said)
		return err
	})
}
