package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// scopeFlags say what is paused.
type scopeFlags struct {
	databaseFlags

	Queue       *string `group:"What" placeholder:"NAME" help:"A queue; with one of the others: only in this queue."`
	Kind        *string `group:"What" placeholder:"KIND" help:"A kind."`
	Tenant      *string `group:"What" placeholder:"NAME" help:"A tenant."`
	OrderingKey *string `group:"What" placeholder:"KEY" help:"An ordering key, of --queue and, if it is of one, --tenant."`
}

// scope is what the flags say. An empty value is refused: it stands for nothing.
func (f scopeFlags) scope() (store.Scope, error) {
	for _, flag := range []jobFlag{
		textFlag("queue", f.Queue), textFlag("kind", f.Kind), textFlag("tenant", f.Tenant), textFlag("ordering_key", f.OrderingKey),
	} {
		if flag.empty {
			return store.Scope{}, refusedFlag(flag.field, store.EmptyText(flag.field))
		}
	}
	scope := store.Scope{Queue: orZero(f.Queue), Kind: orZero(f.Kind), Tenant: orZero(f.Tenant), OrderingKey: orZero(f.OrderingKey)}
	if scope == (store.Scope{}) {
		return scope, usage("give --queue, --kind, --tenant or --ordering-key: what is it about?")
	}
	return scope, nil
}

// with calls a function with the scope and the store.
func (f scopeFlags) with(a *app, act func(store.Scope, *store.Store) error) error {
	scope, err := f.scope()
	if err != nil {
		return err
	}
	conn, err := f.connect(a.ctx, a.env)
	if err != nil {
		return err
	}
	defer closeConn(a.ctx, conn)
	return notMigrated(flagError(act(scope, store.New(conn).In(f.schema(a.env)))))
}

type pauseCommand struct {
	scopeFlags

	Reason string  `placeholder:"TEXT" help:"Why, for whoever finds it paused."`
	By     *string `placeholder:"NAME" help:"Who pauses. Default: the user of this process."`
}

// Run prints paused, or already paused.
func (c *pauseCommand) Run(a *app) error {
	return c.with(a, func(scope store.Scope, db *store.Store) error {
		by := orZero(c.By)
		if c.By == nil {
			by = userName()
		}
		fresh, err := db.Pause(a.ctx, scope, store.PauseNote{Reason: c.Reason, By: by})
		if err != nil {
			return pauseError(err)
		}
		if !fresh {
			_, err = fmt.Fprintln(a.stdout, "already paused")
			return err
		}
		_, err = fmt.Fprintln(a.stdout, "paused")
		return err
	})
}

// pauseError names the flag of the author, which SQL calls otherwise.
func pauseError(err error) error {
	var field *store.FieldError
	if errors.As(err, &field) && field.Field == "paused_by" {
		return &refusedError{"--by", err}
	}
	return err
}

// userName is the user of this process; "" if the system does not say.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

type resumeCommand struct {
	scopeFlags
}

// Run prints resumed, or not paused, and returns all that was parked.
func (c *resumeCommand) Run(a *app) error {
	return c.with(a, func(scope store.Scope, db *store.Store) error {
		resumed, err := db.Resume(a.ctx, scope)
		if err != nil {
			return err
		}
		for left := resumed; left.More && left.Returned > 0; { // who is locked is left to the dispatchers
			if left, err = db.Resume(a.ctx, scope); err != nil {
				return err
			}
			resumed.Returned += left.Returned
		}
		text := "not paused"
		if resumed.WasPaused {
			text = "resumed"
		}
		if resumed.Returned > 0 {
			text += fmt.Sprintf(", %s returned to the ready line", counted(resumed.Returned, "job"))
		}
		_, err = fmt.Fprintln(a.stdout, text)
		return err
	})
}

type pausesCommand struct {
	databaseFlags

	JSON bool `name:"json" help:"Print a JSON object for each pause."`
}

// Run prints a line for each pause, the oldest first.
func (c *pausesCommand) Run(a *app) error {
	conn, err := c.connect(a.ctx, a.env)
	if err != nil {
		return err
	}
	defer closeConn(a.ctx, conn)
	pauses, err := store.New(conn).In(c.schema(a.env)).Pauses(a.ctx)
	if err != nil {
		return notMigrated(err)
	}
	for _, p := range pauses {
		if err := c.print(a, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *pausesCommand) print(a *app, p store.Pause) error {
	at := p.At.UTC().Format(time.RFC3339)
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(struct {
			Queue       string `json:"queue,omitempty"`
			Kind        string `json:"kind,omitempty"`
			Tenant      string `json:"tenant,omitempty"`
			OrderingKey string `json:"ordering_key,omitempty"`
			Reason      string `json:"reason"`
			By          string `json:"paused_by"`
			At          string `json:"paused_at"`
		}{p.Queue, p.Kind, p.Tenant, p.OrderingKey, p.Reason, p.By, at})
	}
	_, err := fmt.Fprintf(a.stdout, "%s\t%s\tby %s\t%s\n", at, scopeText(p.Scope), cmp.Or(p.By, "?"), p.Reason)
	return err
}

// scopeText is a scope as the flags that name it.
func scopeText(s store.Scope) string {
	var words []string
	for _, part := range []struct{ flag, value string }{
		{"--queue", s.Queue},
		{"--kind", s.Kind},
		{"--tenant", s.Tenant},
		{"--ordering-key", s.OrderingKey},
	} {
		if part.value != "" {
			words = append(words, fmt.Sprintf("%s %q", part.flag, part.value))
		}
	}
	return strings.Join(words, " ")
}
