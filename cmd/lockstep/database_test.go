package main

import (
	"net"
	"strings"
	"testing"

	"github.com/lockstep-pg/lockstep/integration/testdb"
)

func TestDatabaseIsFoundInOrder(t *testing.T) {
	t.Parallel()
	file := write(t, "url", "postgres://file@host/db\n")
	env := map[string]string{"LOCKSTEP_DATABASE_URL": "postgres://variable@host/db"}
	for name, test := range map[string]struct {
		flags serverFlags
		env   map[string]string
		want  string
	}{
		"the flag":     {serverFlags{URL: "postgres://flag@host/db"}, env, "flag"},
		"the file":     {serverFlags{File: file}, env, "file"},
		"the variable": {serverFlags{}, env, "variable"},
		"key=value":    {serverFlags{URL: "host=h user=kv dbname=d"}, env, "kv"},
		"pool setting": {serverFlags{URL: "postgres://pool@host/db?pool_max_conns=3"}, env, "pool"},
	} {
		config, err := test.flags.config(func(name string) string { return test.env[name] })
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if config.ConnConfig.User != test.want {
			t.Errorf("%s: user = %q, want %q", name, config.ConnConfig.User, test.want)
		}
	}
}

func TestSchemaIsTheFlagsOrTheVariables(t *testing.T) {
	t.Parallel()
	env := func(string) string { return "variable" }
	none := func(string) string { return "" }
	for _, test := range []struct {
		got, want string
	}{
		{databaseFlags{Schema: "flag"}.schema(env), "flag"},
		{databaseFlags{}.schema(env), "variable"},
		{databaseFlags{}.schema(none), "lockstep"},
	} {
		if test.got != test.want {
			t.Errorf("schema = %q, want %q", test.got, test.want)
		}
	}
}

// secret is the password in every URL of these tests.
const secret = "hunter2hunter2"

func TestBadURLsAreNamedAndNeverShown(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://u:" + secret + "@host:port/db",
		"postgres://u:" + secret + "/x@host/db",
		"postgres://u:%zz" + secret + "@host/db",
		"postgres://u:a:" + secret + "@host:1:2/db",
		"postgres://u:pass word" + secret + "@host:9999999/db",
		"postgres://u@host/db?password=" + secret + "&sslmode=perhaps",
		"postgres://u:" + secret + "@host/db?pool_max_conns=many",
		"postgres://u:" + secret + "@host/db?connect_timeout=soon",
		"mysql://u:" + secret + "@host/db",
		"host=h password=" + secret + " port=x",
		"host=h password='it\\'s " + secret + "' port=x",
		"host=h password='" + secret,
		secret,
		"host=h sslmode=verify-full sslrootcert=/nowhere/" + secret + ".pem",
	} {
		file := write(t, "url", url)
		for _, r := range []result{
			call{}.run(t, "migrate", "status", "--database-url", url).want(t, exitUsage, "--database-url: "),
			call{}.run(t, "migrate", "status", "--database-url-file", file).want(t, exitUsage, "--database-url-file "+file),
			call{env: map[string]string{"LOCKSTEP_DATABASE_URL": url}}.run(t, "demo").want(t, exitUsage, "LOCKSTEP_DATABASE_URL: "),
			call{}.run(t, "config", "check", "--push", "http://127.0.0.1:1/", "--database-url", url).want(t, exitUsage, "--database-url: "),
			call{}.run(t, "config", "check", "--push", "http://127.0.0.1:1/", "--listen-database-url", url).want(t, exitUsage, "--listen-database-url: "),
			call{}.run(t, "run", "--push", "http://127.0.0.1:1/", "--database-url", "host=h", "--listen-database-url", url).want(t, exitUsage, "--listen-database-url: "),
		} {
			if strings.Contains(r.stderr+r.stdout, secret) {
				t.Errorf("%s: the password is shown:\n%s%s", url, r.stdout, r.stderr)
			}
		}
	}
}

func TestABadURLInTheSettingsIsNamedByItsLine(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"url", "listen_url"} {
		file := write(t, "lockstep.yaml", "push: [{url: 'http://127.0.0.1:1/'}]\ndatabase:\n  "+field+": mysql://u:"+secret+"@h/db\n")
		r := call{}.run(t, "config", "check", "--config", file).want(t, exitUsage, file+":3: not a PostgreSQL URL")
		if strings.Contains(r.stderr, secret) {
			t.Errorf("the password is shown: %s", r.stderr)
		}
	}
}

func TestAURLFileGoesBeforeTheVariable(t *testing.T) {
	t.Parallel()
	c := call{env: map[string]string{"LOCKSTEP_DATABASE_URL": "postgres://variable@host/db"}}
	check := []string{"config", "check", "--push", "http://127.0.0.1:1/", "--database-url-file"}
	c.run(t, append(check, write(t, "url", "postgres://file@host/db"))...).want(t, exitOK)
	c.run(t, append(check, write(t, "url", "mysql://file@host/db"))...).want(t, exitUsage, "--database-url-file ")
}

func TestMissingOrEmptyURLFileIsNamed(t *testing.T) {
	t.Parallel()
	call{}.run(t, "migrate", "up", "--database-url-file", "/nowhere/url").want(t, exitUsage, "--database-url-file", "/nowhere/url")
	call{}.run(t, "migrate", "up", "--database-url-file", write(t, "url", " \n")).want(t, exitUsage, "--database-url-file", "is empty")
}

func TestUnreachableDatabaseHasItsOwnExitCode(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	url := "postgres://u:" + secret + "@" + address + "/db"
	for _, args := range [][]string{
		{"migrate", "up"},
		{"enqueue", "--kind", "k"},
		{"enqueue", "--file", "-"},
		{"demo"},
	} {
		r := call{}.run(t, append(args, "--database-url", url)...).want(t, exitUnreachable, address)
		if strings.Contains(r.stderr, secret) {
			t.Errorf("%v: the password is shown: %s", args, r.stderr)
		}
		if n := strings.Count(r.stderr, "connection refused"); n != 1 {
			t.Errorf("%v: the refusal is told %d times, want once: %s", args, n, r.stderr)
		}
	}
}

func TestSourceURLWorksFromAFile(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	call{}.run(t, "migrate", "status", "--database-url-file", write(t, "url", db.URL+"\n")).want(t, exitOK)
}

// A command reads times as text, which looks as the database's DateStyle says.
func TestCommandsInAnyDateStyle(t *testing.T) {
	t.Parallel()
	db := testdb.NewEmpty(t)
	db.Exec(t, "alter database "+db.Name+" set datestyle = 'German'")
	c := on(db)
	for _, args := range [][]string{
		{"migrate", "up"},
		{"migrate", "status"},
		{"enqueue", "--kind", "k", "--run-at", "2040-01-31T12:00:00Z"},
		{"status", "1"},
		{"pause", "--queue", "q"},
		{"pauses"},
		{"dead", "replay", "--all"},
		{"dead", "replays"},
		{"dead", "list"},
		{"verify", "--patience", "0s"},
	} {
		c.run(t, args...).want(t, exitOK)
	}
}
