package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

type deadCommand struct {
	List    deadListCommand    `cmd:"" help:"List dead letters, the latest first."`
	Show    deadShowCommand    `cmd:"" help:"Show one dead letter with its payload and all its attempts, as JSON."`
	Replay  deadReplayCommand  `cmd:"" help:"Replay dead letters: those of the ids given at once, or those that a filter holds for, at a rate."`
	Replays deadReplaysCommand `cmd:"" help:"List replays at a rate: how far they are, and what is left."`
	Stop    deadStopCommand    `cmd:"" help:"Stop a replay; the letters it has not come to stay."`
	Discard deadDiscardCommand `cmd:"" help:"Forget dead letters; a lane that one blocks goes on."`
	Purge   deadPurgeCommand   `cmd:"" help:"Forget dead letters by age. One that blocks its lane stays."`
}

// word is a flag's value that is not empty: what an empty one stands for got
// lost, and without it more is meant than was.
type word string

// UnmarshalText is how kong reads it.
func (w *word) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("must not be empty")
	}
	*w = word(text)
	return nil
}

// deadFilterFlags say which dead letters are meant.
type deadFilterFlags struct {
	Queue       word    `placeholder:"NAME" help:"Of this queue."`
	Kind        word    `placeholder:"KIND" help:"Of this kind."`
	Tenant      word    `placeholder:"NAME" help:"Of this tenant."`
	OrderingKey word    `placeholder:"KEY" help:"Of this ordering key."`
	Error       word    `placeholder:"PATTERN" help:"Whose last error is like PATTERN, as SQL's LIKE has it: % is any text, _ any sign, \\ takes the meaning of the sign after it, as in '%timeout%'."`
	From        *string `placeholder:"TIME" help:"Dead at TIME or later, as in 2030-01-31T12:00:00Z (RFC 3339)."`
	Before      *string `placeholder:"TIME" help:"Dead before TIME."`
}

func (f deadFilterFlags) filter() (store.DeadFilter, error) {
	filter := store.DeadFilter{
		Queue: string(f.Queue), Kind: string(f.Kind), Tenant: string(f.Tenant), OrderingKey: string(f.OrderingKey), Error: string(f.Error),
	}
	for _, flag := range []struct {
		name  string
		value *string
		into  *time.Time
	}{{"--from", f.From, &filter.DiedFrom}, {"--before", f.Before, &filter.DiedBefore}} {
		if flag.value == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339, *flag.value)
		if err != nil {
			return filter, usage("%s: %q is not %s", flag.name, *flag.value, store.TimeForm)
		}
		*flag.into = at
	}
	return filter, nil
}

type deadListCommand struct {
	databaseFlags
	deadFilterFlags

	Limit int  `default:"100" placeholder:"N" help:"At most so many. Default: 100."`
	JSON  bool `name:"json" help:"Print a JSON object a line."`
}

// Run lists dead letters.
func (c *deadListCommand) Run(a *app) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	if c.Limit < 1 {
		return usage("--limit is %d; it must be at least 1", c.Limit)
	}
	return c.use(a, func(db *store.Store) error {
		page := store.DeadPage{}
		for left := c.Limit; left > 0; left -= page.Limit {
			page.Limit = min(left, 1000)
			letters, err := db.ListDead(a.ctx, filter, page)
			if err != nil {
				return flagError(err)
			}
			for _, letter := range letters {
				if err := printItem(a.stdout, c.JSON, letter, deadLine(letter)); err != nil {
					return err
				}
				page.After = &letter
			}
			if len(letters) < page.Limit {
				return nil
			}
		}
		return nil
	})
}

// deadLine is a dead letter for a person, in one line.
func deadLine(d store.DeadLetter) string {
	line := fmt.Sprintf("%d\t%s\t%s/%s", d.ID, d.DiedAt.UTC().Format(time.RFC3339), d.Queue, d.Kind)
	if d.Tenant != "" {
		line += "\ttenant " + strconv.Quote(d.Tenant)
	}
	if d.OrderingKey != "" {
		line += "\tkey " + strconv.Quote(d.OrderingKey)
	}
	if d.Blocking {
		line += "\tblocks its lane"
	}
	return line + fmt.Sprintf("\t%s\t%s", counted(d.Attempt, "attempt"), firstLine(d.Error))
}

// firstLine is as much of an error as fits into a line.
func firstLine(text string) string {
	line, rest, _ := strings.Cut(text, "\n")
	if runes := []rune(line); len(runes) > 200 {
		line, rest = string(runes[:200]), "more"
	}
	if rest != "" {
		line += " …"
	}
	return strings.Trim(strconv.Quote(line), `"`) // no signs that a terminal would obey
}

// printItem prints a value as a JSON object, or its line.
func printItem(w io.Writer, asJSON bool, value any, line string) error {
	if asJSON {
		return json.NewEncoder(w).Encode(value)
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

type deadShowCommand struct {
	databaseFlags

	ID int64 `arg:"" help:"The job's id."`
}

// Run shows a dead letter, indented.
func (c *deadShowCommand) Run(a *app) error {
	return c.use(a, func(db *store.Store) error {
		letter, err := db.ShowDead(a.ctx, c.ID)
		if err != nil {
			return err
		}
		out := json.NewEncoder(a.stdout)
		out.SetIndent("", "  ")
		return out.Encode(letter)
	})
}

type deadDiscardCommand struct {
	databaseFlags

	IDs []int64 `arg:"" name:"id" help:"The jobs' ids."`
}

// Run forgets dead letters one by one, up to the first that can't be.
func (c *deadDiscardCommand) Run(a *app) error {
	return c.use(a, func(db *store.Store) error {
		return each(a, c.IDs, func(id int64) (string, error) { return "discarded", db.Discard(a.ctx, id) })
	})
}

// each does something about each id, and tells. The first error ends it; what
// was told of is done.
func each(a *app, ids []int64, do func(int64) (string, error)) error {
	for _, id := range ids {
		said, err := do(id)
		if err != nil {
			return fmt.Errorf("job %d: %w", id, err)
		}
		if _, err := fmt.Fprintf(a.stdout, "%d\t%s\n", id, said); err != nil {
			return err
		}
	}
	return nil
}

type deadPurgeCommand struct {
	databaseFlags

	OlderThan time.Duration `required:"" placeholder:"DURATION" help:"Dead for longer than this, as in 720h."`
	Queue     word          `placeholder:"NAME" help:"Of this queue."`
	Kind      word          `placeholder:"KIND" help:"Of this kind."`
}

// Run purges, a page at a time, until nothing is left that is old enough.
func (c *deadPurgeCommand) Run(a *app) error {
	if c.OlderThan < 0 {
		return usage("--older-than is %v; it can't be negative", c.OlderThan)
	}
	return c.use(a, func(db *store.Store) error {
		sum := 0
		for more := true; more; {
			n, again, err := db.PurgeDead(a.ctx, store.Purge{OlderThan: c.OlderThan, Queue: string(c.Queue), Kind: string(c.Kind)})
			if err != nil {
				return fmt.Errorf("after %s: %w", counted(sum, "dead letter"), flagError(err))
			}
			sum, more = sum+n, again
		}
		_, err := fmt.Fprintf(a.stdout, "purged %s\n", counted(sum, "dead letter"))
		return err
	})
}
