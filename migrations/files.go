package migrations

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
)

//go:embed sql/*.sql
var embedded embed.FS

// ErrBrokenSet is returned, wrapped, for a set of files that are not numbered
// 0001, 0002, … without a gap, or not named as they should be.
var ErrBrokenSet = errors.New("broken set of migrations")

// Migration is one file of the schema.
type Migration struct {
	Version  int    // the number in front, from 1
	Name     string // what stands between the number and .sql
	Checksum string // SHA-256 of the file, before a schema's name is filled in

	// Replaceable is a file that holds functions, triggers and views only, all
	// of them made with `create or replace`. An upgrade applies it again if its
	// text has changed; a file of tables never changes.
	Replaceable bool

	sql string
}

// String is the file's name.
func (m Migration) String() string { return fmt.Sprintf("%04d_%s.sql", m.Version, m.Name) }

// Files returns the migrations that are part of this program.
func Files() fs.FS {
	files, err := fs.Sub(embedded, "sql")
	if err != nil {
		panic(err) // only for a path that is not valid, and this one is
	}
	return files
}

var fileName = regexp.MustCompile(`^([0-9]{4})_([a-z0-9_]+)\.sql$`)

// replaceable is the first line of a file that may be applied again.
const replaceable = "-- replaceable\n"

// load reads a set and checks that it is whole.
func load(files fs.FS) ([]Migration, error) {
	entries, err := fs.ReadDir(files, ".") // sorted by name, so by number
	if err != nil {
		return nil, err
	}
	var set []Migration
	for _, entry := range entries {
		migration, err := read(files, entry.Name())
		if err != nil {
			return nil, err
		}
		if want := len(set) + 1; migration.Version != want {
			return nil, fmt.Errorf("%w: found %s where %04d_… should be", ErrBrokenSet, migration, want)
		}
		set = append(set, migration)
	}
	if len(set) == 0 {
		return nil, fmt.Errorf("%w: there is no file", ErrBrokenSet)
	}
	return set, nil
}

func read(files fs.FS, name string) (Migration, error) {
	parts := fileName.FindStringSubmatch(name)
	if parts == nil {
		return Migration{}, fmt.Errorf("%w: %q is not named NNNN_name.sql", ErrBrokenSet, name)
	}
	version, err := strconv.Atoi(parts[1])
	if err != nil {
		return Migration{}, err
	}
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return Migration{}, fmt.Errorf("%w: %w", ErrBrokenSet, err)
	}
	if strings.TrimSpace(string(content)) == "" {
		return Migration{}, fmt.Errorf("%w: %q is empty", ErrBrokenSet, name)
	}
	sum := sha256.Sum256(content)
	return Migration{
		Version: version, Name: parts[2], Checksum: hex.EncodeToString(sum[:]),
		Replaceable: strings.HasPrefix(string(content), replaceable), sql: string(content),
	}, nil
}
