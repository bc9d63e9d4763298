package migrations

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"unicode/utf8"
)

// DefaultSchema is the schema that everything of Lockstep's lives in, if the
// configuration does not name another.
const DefaultSchema = "lockstep"

// maxSchemaBytes is the longest name that PostgreSQL keeps whole.
const maxSchemaBytes = 63

// ErrSchemaName is returned, wrapped, for a schema name that PostgreSQL would
// refuse, cut short, or keep for itself.
var ErrSchemaName = errors.New("not a usable schema name")

// Config says what to migrate. The zero value is the schema lockstep and this
// program's own files.
type Config struct {
	// Schema is the name of the schema, at most 63 bytes, as it is: upper case,
	// blanks, quotes and SQL's own words are fine. Empty: DefaultSchema.
	Schema string

	// Files are the migrations, NNNN_name.sql at the root. Nil: Files(). A test
	// sets it to try a changed schema.
	Files fs.FS

	// Logger is told what is applied and what is waited for. Nil: nobody is.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	if c.Files == nil {
		c.Files = Files()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	name := c.Schema
	switch {
	case len(name) > maxSchemaBytes:
		return fmt.Errorf("%w: %q has %d bytes, the limit is %d", ErrSchemaName, name, len(name), maxSchemaBytes)
	case strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		return fmt.Errorf("%w: %q is not text", ErrSchemaName, name)
	case strings.HasPrefix(name, "pg_") || name == "information_schema":
		return fmt.Errorf("%w: %q is kept for PostgreSQL itself", ErrSchemaName, name)
	}
	return nil
}
