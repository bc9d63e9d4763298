package postgres

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Config says what server to start. The zero value is a server for tests in a
// new temporary folder.
type Config struct {
	// Dir holds the server's data, socket and log. It is created when missing,
	// and kept at Close; one that already holds a server's data is started as
	// it is. As root, it has to be empty, missing, or owned by the server's
	// user. Empty: a new temporary folder, removed at Close or, if this process
	// is killed, at the next start of a server.
	Dir string

	// InMemory puts the temporary folder of an empty Dir into this machine's
	// memory (/dev/shm), where there is plenty of room: making and dropping
	// databases then takes a fraction of the time. Where there is not, and where
	// TMPDIR is set, it is a folder as any.
	InMemory bool

	// BinDir holds the binaries postgres and initdb, of PostgreSQL 14 or later.
	// Empty: what FindBinaries finds.
	BinDir string

	// Settings are values of postgresql.conf, set over our defaults; the
	// address, port and socket folder stay ours.
	Settings map[string]string

	// Durable makes a commit wait until it is on the disk (fsync). False: it
	// waits until the operating system has it.
	Durable bool

	// MaxConnections is the server's limit; 0 means 200.
	MaxConnections int
}

// withDefaults returns a copy with every unset field but Dir set.
func (c Config) withDefaults() (Config, error) {
	if c.MaxConnections == 0 {
		c.MaxConnections = 200
	}
	var err error
	if c.BinDir == "" {
		c.BinDir, err = FindBinaries()
	}
	return c, err
}

// socketLimit is the longest socket path that every system takes, with room
// for the name PostgreSQL adds to the folder.
const socketLimit = 100 - len("/.s.PGSQL.12345")

// settings are the values that postgresql.conf is written from.
func (c Config) settings(port int) map[string]string {
	durable := map[bool]string{true: "on", false: "off"}[c.Durable]
	settings := map[string]string{
		"max_connections":           strconv.Itoa(c.MaxConnections),
		"shared_buffers":            "128MB",
		"fsync":                     durable,
		"full_page_writes":          durable,
		"synchronous_commit":        "on",
		"track_commit_timestamp":    "on",
		"max_prepared_transactions": "10",
		"timezone":                  "UTC",
		"log_timezone":              "UTC",
	}
	maps.Copy(settings, c.Settings)
	settings["listen_addresses"] = host
	settings["port"] = strconv.Itoa(port)
	settings["unix_socket_directories"] = c.Dir
	if len(c.Dir) > socketLimit || strings.Contains(c.Dir, ",") {
		settings["unix_socket_directories"] = ""
	}
	return settings
}

// writeSettings replaces postgresql.conf. A file, not flags: flags would stand
// above ALTER SYSTEM.
func (c Config) writeSettings(port int) error {
	settings := c.settings(port)
	var conf strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := strings.NewReplacer("'", "''", `\`, `\\`).Replace(settings[name])
		fmt.Fprintf(&conf, "%s = '%s'\n", name, value)
	}
	return os.WriteFile(filepath.Join(c.Dir, "postgresql.conf"), []byte(conf.String()), 0o644)
}
