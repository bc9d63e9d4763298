package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/cmd/lockstep/sidecar"
	"github.com/lockstep-pg/lockstep/integration/postgres"
	"github.com/lockstep-pg/lockstep/migrations"
)

type runCommand struct {
	sidecarFlags
	Migrate bool   `help:"Create or update the schema first."`
	Dev     bool   `help:"Work on a private PostgreSQL that is started for it, in a folder that is kept. Not for production."`
	DevDir  string `name:"dev-dir" placeholder:"FOLDER" help:"The folder of --dev. Default: lockstep-dev in the user's cache folder, for root in /var/tmp."`
}

// Run runs the sidecar until a signal.
func (c *runCommand) Run(a *app) error {
	s, err := c.settings(a.env)
	if err != nil {
		return err
	}
	note := ""
	if c.Dev {
		server, err := c.startDev(a)
		if err != nil {
			return err
		}
		defer server.Close()
		s.Database.URL, s.Database.URLFile = server.URL("postgres"), ""
		note = "development: a private PostgreSQL in " + server.Dir()
		a.log.Warn(note, "url", server.URL("postgres"))
	}
	config, err := databaseOf(s, a.env)
	if err != nil {
		return err
	}
	if c.Migrate || c.Dev {
		if err := migrateSchema(a, config, s.Database.Schema); err != nil {
			return err
		}
	}
	car, err := sidecar.New(s, config, 0, a.log)
	if err != nil {
		return sidecarError(err)
	}
	defer car.Close()
	hurry, stop := secondSignal()
	defer stop()
	return sidecarError(car.Run(a.ctx, hurry, note))
}

// startDev starts the private server.
func (c *runCommand) startDev(a *app) (*postgres.Server, error) {
	if c.URL != nil || c.URLFile != nil {
		return nil, usage("--dev works on a database of its own: leave out --database-url and LOCKSTEP_DATABASE_URL")
	}
	dir := c.DevDir
	if dir == "" {
		var err error
		if dir, err = devDir(); err != nil {
			return nil, usage("--dev-dir: there is no cache folder (%v): name one", err)
		}
	}
	return postgres.Start(a.ctx, postgres.Config{Dir: dir, Durable: true})
}

// devDir is where the server of --dev keeps its data. Root's runs as another
// user, who can't reach root's own folders.
func devDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/tmp/lockstep-dev", nil
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "lockstep-dev"), err
}

// databaseOf is the database that the settings name: one must be named, so that
// nobody pushes another's jobs by an accident of the environment.
func databaseOf(s *sidecar.Settings, env func(string) string) (*pgxpool.Config, error) {
	config, err := parseDatabases(s, env)
	if config == nil && err == nil {
		return nil, usage("no database: give --database-url, set LOCKSTEP_DATABASE_URL, or write database.url into the file of settings; to try without one: lockstep run --dev")
	}
	return config, err
}

// parseDatabases parses the databases that the settings name; nil if they name
// none but the listener's.
func parseDatabases(s *sidecar.Settings, env func(string) string) (config *pgxpool.Config, err error) {
	switch {
	case s.Database.URL != "":
		config, err = parseDatabase(s.Database.URL, s.Where("database.url"))
	case s.Database.URLFile != "":
		config, err = serverFlags{File: s.Database.URLFile}.config(env)
	}
	if err == nil && s.Database.ListenURL != "" {
		_, err = parseDatabase(s.Database.ListenURL, s.Where("database.listen_url"))
	}
	return config, err
}

func migrateSchema(a *app, config *pgxpool.Config, schema string) error {
	conn, err := pgx.ConnectConfig(a.ctx, config.ConnConfig)
	if err != nil {
		return err
	}
	defer closeConn(a.ctx, conn)
	_, err = migrations.Up(a.ctx, conn, migrations.Config{Schema: schema, Logger: a.log})
	return err
}

// secondSignal tells when the process is asked to end again. A third ends it.
func secondSignal() (hurry <-chan struct{}, stop func()) {
	signals, second, done := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, endSignals()...)
	go func() {
		defer signal.Stop(signals)
		for range 2 {
			select {
			case <-signals:
			case <-done:
				return
			}
		}
		close(second)
	}()
	return second, func() { close(done) }
}

// sidecarError makes a setting that can't be used a matter of usage.
func sidecarError(err error) error {
	var value *sidecar.ValueError
	if errors.As(err, &value) {
		return usage("%v", err)
	}
	return err
}

type drainCommand struct {
	sidecarFlags
	MaxJobs int              `name:"max-jobs" placeholder:"N" help:"Claim no more than so many jobs. Default: as many as there are."`
	MaxTime sidecar.Duration `name:"max-time" default:"50s" placeholder:"DURATION" help:"Claim nothing more after that; what runs has its grace. Default: 50s."`
	JSON    bool             `name:"json" help:"Tell what was done as JSON."`
}

// Run drains the queues.
func (c *drainCommand) Run(a *app) error {
	if c.MaxJobs < 0 || c.MaxTime <= 0 {
		return usage("--max-jobs must not be negative, and --max-time more than 0")
	}
	s, err := c.settings(a.env)
	if err != nil {
		return err
	}
	config, err := databaseOf(s, a.env)
	if err != nil {
		return err
	}
	car, err := sidecar.New(s, config, c.MaxJobs, a.log)
	if err != nil {
		return sidecarError(err)
	}
	defer car.Close()
	hurry, stop := secondSignal()
	defer stop()
	done, err := car.Drain(a.ctx, time.Duration(c.MaxTime), hurry)
	if c.JSON {
		return errors.Join(err, json.NewEncoder(a.stdout).Encode(done))
	}
	_, printed := fmt.Fprintln(a.stdout, done)
	return errors.Join(err, printed)
}
