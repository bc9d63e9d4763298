package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/migrations"
)

// closeTimeout bounds the tidying up, which goes on after an interrupt.
const closeTimeout = 30 * time.Second

// database is where the demo happens.
type database struct {
	config *pgxpool.Config
	schema string
	server *postgres.Server // nil in a given database
}

// openDatabase makes a schema of the demo's own, in a private server if config
// names no database. After an error nothing is left.
func openDatabase(ctx context.Context, config Config) (*database, error) {
	db := &database{config: config.Database, schema: "lockstep_demo_" + randomName()}
	if db.config == nil {
		if err := db.start(ctx); err != nil {
			return nil, err
		}
	}
	connected := false
	err := db.withConn(ctx, func(conn *pgx.Conn) error {
		connected = true
		_, err := migrations.Up(ctx, conn, migrations.Config{Schema: db.schema, Logger: config.Logger})
		return err
	})
	switch {
	case err == nil:
		return db, nil
	case db.server == nil && !connected:
		return nil, err // there is nothing to drop
	default:
		return nil, errors.Join(err, db.close(ctx))
	}
}

func randomName() string {
	name := make([]byte, 6)
	_, _ = rand.Read(name) // never fails: see crypto/rand
	return hex.EncodeToString(name)
}

func (db *database) start(ctx context.Context) error {
	server, err := postgres.Start(ctx, postgres.Config{})
	if err != nil {
		return fmt.Errorf("starting a private PostgreSQL: %w", err)
	}
	if db.config, err = pgxpool.ParseConfig(server.URL("postgres")); err != nil {
		return errors.Join(err, server.Close())
	}
	db.server = server
	return nil
}

// place says for people where the demo happens.
func (db *database) place() string {
	if db.server != nil {
		return "a private PostgreSQL in " + db.server.Dir() + ", without fsync"
	}
	conn := db.config.ConnConfig
	return fmt.Sprintf("schema %s in database %s on %s, dropped at the end", db.schema, conn.Database, conn.Host)
}

// pool opens a pool that others do not share.
func (db *database) pool(ctx context.Context, name string, size int32) (*pgxpool.Pool, error) {
	config := db.config.Copy()
	config.MaxConns = size
	config.ConnConfig.RuntimeParams["application_name"] = "lockstep demo " + name
	return pgxpool.NewWithConfig(ctx, config)
}

// name qualifies the name of a table in the demo's schema.
func (db *database) name(table string) string {
	return pgx.Identifier{db.schema, table}.Sanitize()
}

// close removes everything, also after an interrupt.
func (db *database) close(ctx context.Context) error {
	if db.server != nil {
		return db.server.Close()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := db.withConn(ctx, func(conn *pgx.Conn) error {
		return migrations.Down(ctx, conn, migrations.Config{Schema: db.schema}, migrations.DropEverything)
	})
	if err != nil {
		return fmt.Errorf("dropping the schema %s of the demo: %w", db.schema, err)
	}
	return nil
}

func (db *database) withConn(ctx context.Context, fn func(*pgx.Conn) error) error {
	conn, err := pgx.ConnectConfig(ctx, db.config.ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return fn(conn)
}
