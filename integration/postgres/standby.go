package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Standby creates a server that holds what s holds and follows it, by streaming
// replication, and returns once it accepts reading connections. Its settings
// are those of s, with those of config over them.
//
// It is asynchronous until s is told otherwise: see synchronous_standby_names.
// A failed start leaves neither a process nor a temporary folder behind.
func (s *Server) Standby(ctx context.Context, config Config) (*Server, error) {
	settings := maps.Clone(s.config.Settings)
	if settings == nil {
		settings = make(map[string]string)
	}
	maps.Copy(settings, config.Settings)
	settings["primary_conninfo"] = fmt.Sprintf("host=%s port=%d user=%s application_name=standby", host, s.Port(), superuser)
	settings["wal_retrieve_retry_interval"] = "100ms" // default: 5 s until it follows a primary that was restarted
	config.Settings = settings
	config.BinDir, config.Durable, config.InMemory, config.MaxConnections = s.config.BinDir, s.config.Durable, s.config.InMemory, s.config.MaxConnections
	standby := &Server{config: config, owner: s.owner}
	if err := standby.follow(ctx, s); err != nil {
		return nil, errors.Join(fmt.Errorf("creating a standby: %w", err), standby.Close())
	}
	return standby, nil
}

func (s *Server) follow(ctx context.Context, primary *Server) error {
	if err := s.chooseDir(); err != nil {
		return err
	}
	if err := s.owner.prepare(s.config.Dir); err != nil {
		return err
	}
	if err := s.copyFrom(ctx, primary); err != nil {
		return err
	}
	if err := s.write("standby.signal", ""); err != nil {
		return err
	}
	return s.start(ctx, freePort)
}

// Promote makes a standby a primary of its own, once it has replayed everything
// that it received, and returns when it accepts writes. Its old primary should
// be down by then.
func (s *Server) Promote(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var promoted bool
	if err := conn.QueryRow(ctx, "select pg_promote(true, 600)").Scan(&promoted); err != nil {
		return fmt.Errorf("promoting the standby: %w", err)
	}
	if !promoted {
		return errors.New("promoting the standby: not done after 10 min")
	}
	return nil
}

// copyFrom copies a running server's data, between the calls that make such a
// copy a good one. pg_basebackup would do the same, where it is installed.
func (s *Server) copyFrom(ctx context.Context, primary *Server) error {
	conn, err := pgx.Connect(ctx, primary.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	start, stop := "select pg_backup_start('standby', true)", "select labelfile from pg_backup_stop(false)"
	if majorIn(s.config.BinDir) < 15 {
		start, stop = "select pg_start_backup('standby', true, false)", "select labelfile from pg_stop_backup(false, false)"
	}
	if _, err := conn.Exec(ctx, start); err != nil {
		return err
	}
	if err := s.copyFiles(primary.config.Dir); err != nil {
		return err
	}
	var label string
	if err := conn.QueryRow(ctx, stop).Scan(&label); err != nil {
		return err
	}
	return s.write("backup_label", label)
}

// unwanted are files and folders whose content is the old server's own, or
// comes by replication.
var unwanted = []string{
	"postmaster.pid", "postmaster.opts", "server.log", "standby.signal", "backup_label",
	"pg_wal/*", "pg_replslot/*", "pg_dynshmem/*", "pg_notify/*", "pg_serial/*", "pg_snapshots/*",
	"pg_stat_tmp/*", "pg_subtrans/*", "pgsql_tmp*", ".s.PGSQL.*", "global/pg_control",
}

func wanted(path string) bool {
	return !slices.ContainsFunc(unwanted, func(pattern string) bool {
		matched, _ := filepath.Match(pattern, path)
		return matched
	})
}

// copyFiles copies a data folder, pg_control last. What goes away meanwhile is
// made again from the log.
func (s *Server) copyFiles(from string) error {
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return gone(err)
		}
		name, err := filepath.Rel(from, path)
		switch {
		case err != nil || name == ".":
			return err
		case !wanted(name) && entry.IsDir():
			return fs.SkipDir
		case !wanted(name):
			return nil
		case entry.IsDir():
			return s.mkdir(name)
		default:
			return gone(s.copyFile(from, name))
		}
	})
	if err != nil {
		return err
	}
	if err := s.mkdir("pg_wal/archive_status"); err != nil {
		return err
	}
	return s.copyFile(from, "global/pg_control")
}

func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Server) copyFile(from, name string) error {
	source, err := os.Open(filepath.Join(from, name))
	if err != nil {
		return err
	}
	defer source.Close()
	return s.fill(name, source)
}

func (s *Server) write(name, content string) error { return s.fill(name, strings.NewReader(content)) }

// fill makes a file that belongs to the server's user.
func (s *Server) fill(name string, content io.Reader) error {
	path := filepath.Join(s.config.Dir, name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close(), s.owner.own(path))
}

func (s *Server) mkdir(name string) error {
	path := filepath.Join(s.config.Dir, name)
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return s.owner.own(path)
}
