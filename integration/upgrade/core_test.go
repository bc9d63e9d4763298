package upgrade_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/integration/workerproc"
	"github.com/lockstep-pg/lockstep/migrations"
)

func TestMain(m *testing.M) {
	registerRoles()
	code := workerproc.Main(m)
	if core.dir != "" {
		_ = os.RemoveAll(core.dir)
	}
	os.Exit(code)
}

// core is the earlier version, unpacked once.
var core struct {
	once    sync.Once
	dir     string
	err     error
	build   sync.Once
	program string
	failed  error
}

// coreDir is the folder of the earlier version's tree.
func coreDir(t *testing.T) string {
	t.Helper()
	core.once.Do(func() {
		if core.dir, core.err = os.MkdirTemp("", "lockstep-core-"); core.err == nil {
			core.err = unpack("testdata/core.tar.gz", core.dir)
		}
	})
	if core.err != nil {
		t.Fatal(core.err)
	}
	return core.dir
}

// coreFiles are the earlier version's migrations.
func coreFiles(t *testing.T) fs.FS {
	t.Helper()
	return os.DirFS(filepath.Join(coreDir(t), "migrations", "sql"))
}

// coreDB is a database as the earlier version made it.
func coreDB(t *testing.T) *testdb.DB {
	t.Helper()
	db := testdb.NewEmpty(t)
	db.Migrate(t, migrations.Config{Files: coreFiles(t)})
	return db
}

// coreWorker is the program testdata/worker, built with the earlier version.
func coreWorker(t *testing.T) string {
	t.Helper()
	dir := coreDir(t)
	core.build.Do(func() { core.program, core.failed = buildWorker(dir) })
	if core.failed != nil {
		t.Fatal(core.failed)
	}
	return core.program
}

func buildWorker(dir string) (string, error) {
	source, err := os.ReadFile("testdata/worker/main.go")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(dir, "worker"), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "worker", "main.go"), source, 0o644); err != nil {
		return "", err
	}
	program := filepath.Join(dir, "worker", "worker")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", program, "./worker")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New("building the earlier version: " + string(output))
	}
	return program, nil
}

// unpack writes the files of a compressed archive into dir.
func unpack(archive, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for entries := tar.NewReader(packed); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(entry.Name) {
			return errors.New("the archive leads outside: " + entry.Name)
		}
		if err := unpackFile(entries, filepath.Join(dir, entry.Name)); err != nil {
			return err
		}
	}
}

func unpackFile(from io.Reader, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}
