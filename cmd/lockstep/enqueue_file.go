package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

// A part is what is sent to the server, and held here, at once.
const (
	partLines = 10_000
	partBytes = 16 << 20
)

// many enqueues the jobs of a file, which is read as it is sent.
func (c *enqueueCommand) many(a *app) error {
	input, name, err := c.open(a)
	if err != nil {
		return err
	}
	defer input.Close()
	conn, err := c.connect(a.ctx, a.env)
	if err != nil {
		return fmt.Errorf("%w (nothing was enqueued)", err)
	}
	defer closeConn(a.ctx, conn)
	load := &load{
		ctx: a.ctx, conn: conn, schema: c.schema(a.env), name: name, stdout: a.stdout,
		lines: newLineReader(input),
	}
	if c.InParts {
		err = load.inParts()
	} else {
		err = load.atOnce()
	}
	if err != nil {
		return fmt.Errorf("%w (%s)", notMigrated(err), load.stands())
	}
	a.log.Info("enqueued", "jobs", load.created, "already_there", load.existing, "file", name)
	return nil
}

func (c *enqueueCommand) open(a *app) (io.ReadCloser, string, error) {
	if c.JobFile == "-" {
		return io.NopCloser(a.stdin), "standard input", nil
	}
	file, err := os.Open(c.JobFile)
	if err != nil {
		return nil, "", usage("--file: %v", err)
	}
	return file, c.JobFile, nil
}

// load is the way of one file into the database.
type load struct {
	ctx    context.Context
	conn   *pgx.Conn
	schema string
	name   string // of the file, for errors
	stdout io.Writer
	lines  *lineReader

	created, existing int
	committed         int  // the last line that is committed
	unknown           bool // a commit was sent and not answered
}

// atOnce enqueues everything in one transaction.
func (l *load) atOnce() error {
	var all []store.Enqueued
	err := l.transaction(func(tx pgx.Tx) error {
		for {
			part, err := l.part(tx)
			if err != nil || part == nil {
				return err
			}
			all = append(all, part...)
		}
	})
	if err != nil {
		return err
	}
	return l.report(all)
}

// inParts enqueues every part in a transaction of its own.
func (l *load) inParts() error {
	for {
		var part []store.Enqueued
		err := l.transaction(func(tx pgx.Tx) (err error) {
			part, err = l.part(tx)
			return err
		})
		if err != nil || part == nil {
			return err
		}
		if err := l.report(part); err != nil {
			return err
		}
	}
}

// part reads a part and sends it; nil at the end of the file.
func (l *load) part(tx pgx.Tx) ([]store.Enqueued, error) {
	part, err := l.lines.part()
	if err != nil {
		return nil, l.at(err)
	}
	if len(part.jobs) == 0 {
		return nil, nil
	}
	enqueued, err := store.New(tx).In(l.schema).EnqueueMany(l.ctx, part.jobs)
	var field *store.FieldError
	if errors.As(err, &field) && field.Ordinal >= 1 && field.Ordinal <= len(part.lines) {
		return nil, l.at(&lineError{part.lines[field.Ordinal-1], errors.New(field.Message)})
	}
	return enqueued, err
}

// at says in which file a line was refused.
func (l *load) at(err error) error {
	var line *lineError
	if !errors.As(err, &line) {
		return fmt.Errorf("reading %s: %w", l.name, err)
	}
	return &refusedError{fmt.Sprintf("%s:%d", l.name, line.number), line.err}
}

func (l *load) transaction(fn func(pgx.Tx) error) error {
	tx, err := l.conn.Begin(l.ctx)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, rollback(l.ctx, tx))
	}
	if err := tx.Commit(l.ctx); err != nil {
		l.unknown = l.conn.IsClosed()
		return err
	}
	l.committed = l.lines.number
	return nil
}

// rollback reports nothing when the connection is gone: so is the transaction.
func rollback(ctx context.Context, tx pgx.Tx) error {
	err := tx.Rollback(context.WithoutCancel(ctx))
	if tx.Conn().IsClosed() {
		return nil
	}
	return err
}

func (l *load) report(enqueued []store.Enqueued) error {
	for _, e := range enqueued {
		if e.Created {
			l.created++
		} else {
			l.existing++
		}
	}
	return printIDs(l.stdout, enqueued)
}

// stands says after an error what is in the database and what is not.
func (l *load) stands() string {
	switch {
	case l.unknown:
		return fmt.Sprintf("the connection broke during the commit of the lines from %d to %d: look whether their jobs are there",
			l.committed+1, l.lines.number)
	case l.committed == 0:
		return "nothing was enqueued"
	default:
		return fmt.Sprintf("lines 1 to %d are enqueued, the lines after them are not", l.committed)
	}
}

// printIDs prints an id a line; one that was there is marked with what became of
// the request.
func printIDs(w io.Writer, enqueued []store.Enqueued) error {
	out := bufio.NewWriter(w)
	for _, e := range enqueued {
		mark := ""
		if !e.Created {
			mark = "\t" + string(e.Outcome)
		}
		fmt.Fprintf(out, "%d%s\n", e.ID, mark)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("the jobs are enqueued, but their ids could not be printed: %w", err)
	}
	return nil
}
