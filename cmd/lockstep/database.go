package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/migrations"
	"github.com/lockstep-pg/lockstep/store"
)

// connectTimeout bounds a connection attempt unless the URL says otherwise.
const connectTimeout = 10 * time.Second

// databaseFlags say which database a command works on, and where in it.
type databaseFlags struct {
	serverFlags
	Schema string `placeholder:"NAME" help:"Schema that Lockstep lives in. Default: $$LOCKSTEP_SCHEMA, else lockstep."`
}

// schema is the schema asked for.
func (f databaseFlags) schema(env func(string) string) string {
	return cmp.Or(f.Schema, env("LOCKSTEP_SCHEMA"), store.DefaultSchema)
}

// connect opens the database asked for, and refuses a schema that is of another
// version than this program.
func (f databaseFlags) connect(ctx context.Context, env func(string) string) (*pgx.Conn, error) {
	conn, err := f.serverFlags.connect(ctx, env)
	if err != nil {
		return nil, err
	}
	if err := migrations.Require(ctx, conn, f.schema(env)); err != nil {
		closeConn(ctx, conn)
		return nil, notMigrated(err)
	}
	return conn, nil
}

// serverFlags say which database a command works on.
type serverFlags struct {
	URL  string `name:"database-url" xor:"database" placeholder:"URL" help:"Database, as a postgres:// URL or as key=value settings. Default: $$LOCKSTEP_DATABASE_URL, else the PG* variables."`
	File string `name:"database-url-file" xor:"database" placeholder:"FILE" help:"File that holds the database URL, for secrets that are mounted as files."`
}

// source returns the database URL and what names it in errors. An empty URL
// leaves everything to the PG* variables.
func (f serverFlags) source(env func(string) string) (text, name string, err error) {
	switch {
	case f.URL != "":
		return f.URL, urlFlag, nil
	case f.File != "":
		content, err := os.ReadFile(f.File)
		if err != nil {
			return "", "", usage("--database-url-file: %v", err)
		}
		text := strings.TrimSpace(string(content))
		if text == "" {
			return "", "", usage("--database-url-file: %s is empty", f.File)
		}
		return text, "--database-url-file " + f.File, nil
	case env(urlVariable) != "":
		return env(urlVariable), cmp.Or(env(urlOrigin), urlVariable), nil
	default:
		return "", "the PG* variables", nil
	}
}

// config parses the database asked for. Its errors never quote the URL.
func (f serverFlags) config(env func(string) string) (*pgxpool.Config, error) {
	text, name, err := f.source(env)
	if err != nil {
		return nil, err
	}
	return parseDatabase(text, name)
}

// parseDatabase parses a database URL; name is what named it.
func parseDatabase(text, name string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, usage("%s: %s", name, parseProblem(text, err))
	}
	conn := config.ConnConfig
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTimeout
	}
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "lockstep"
	}
	conn.RuntimeParams["datestyle"] = "ISO" // what pgx reads where an answer comes as text; poolers know the setting
	return config, nil
}

// connect opens the database asked for.
func (f serverFlags) connect(ctx context.Context, env func(string) string) (*pgx.Conn, error) {
	config, err := f.config(env)
	if err != nil {
		return nil, err
	}
	if mode := &config.ConnConfig.DefaultQueryExecMode; *mode == pgx.QueryExecModeCacheStatement {
		*mode = pgx.QueryExecModeExec // works through a pooler in transaction mode too
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		_, name, _ := f.source(env)
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return conn, nil
}

// use opens the database asked for, for as long as do works on its schema.
func (f databaseFlags) use(a *app, do func(*store.Store) error) error {
	conn, err := f.connect(a.ctx, a.env)
	if err != nil {
		return err
	}
	defer closeConn(a.ctx, conn)
	return notMigrated(do(store.New(conn).In(f.schema(a.env))))
}

// closeConn says goodbye, also when ctx has ended.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
	defer cancel()
	_ = conn.Close(ctx)
}

// parseProblem says why a database URL was not understood. pgx quotes the URL
// and parts of it, and in a URL that is not one the password may be anywhere:
// so only those words of pgx are passed on that are its own.
func parseProblem(text string, err error) string {
	const hidden = "its text is not shown, as it may hold a password"
	_, urlErr := url.Parse(text)
	isURL := strings.Contains(text, "://")
	switch {
	case text == "":
		return redact(err.Error())
	case isURL && !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://"):
		return "not a PostgreSQL URL: it has to begin with postgres:// (" + hidden + ")"
	case isURL && urlErr != nil:
		return "not a valid URL: a character like / ? # @ % in the password has to be percent-encoded (" + hidden + ")"
	default:
		return settingProblem(err) + " (" + hidden + ")"
	}
}

// settings are the words by which pgx names the setting it does not like.
var settings = []string{
	"sslmode", "sslcertmode", "sslnegotiation", "TLS", "service", "port", "connect_timeout",
	"target_session_attrs", "min_protocol_version", "max_protocol_version", "channel_binding",
	"require_auth", "default_query_exec_mode", "statement_cache_capacity", "description_cache_capacity",
	"pool_max_conns", "pool_min_conns", "pool_min_idle_conns", "pool_max_conn_lifetime", "pool_max_conn_idle_time",
	"pool_health_check_period", "pool_max_conn_lifetime_jitter", "pool_ping_timeout",
}

func settingProblem(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return fmt.Sprintf("a file it names can't be read: %v", path.Err)
	}
	_, message, _ := strings.Cut(err.Error(), "`: ")
	for _, name := range settings {
		if strings.Contains(message, name) {
			return "its setting " + name + " is not valid"
		}
	}
	return "not a postgres:// URL and not key=value settings"
}
