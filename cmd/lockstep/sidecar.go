package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/lockstep-pg/lockstep/cmd/lockstep/sidecar"
)

// sidecarFlags are the settings that can be given by flag or, by what the tag
// var says, by variable. Those that are not given are nil.
type sidecarFlags struct {
	Config string `placeholder:"FILE" var:"LOCKSTEP_CONFIG" help:"File of settings (lockstep config example shows one). Default: $$LOCKSTEP_CONFIG, else none."`

	URL       *string `name:"database-url" xor:"database" placeholder:"URL" var:"LOCKSTEP_DATABASE_URL" help:"Database, as a postgres:// URL or as key=value settings. Default: $$LOCKSTEP_DATABASE_URL."`
	URLFile   *string `name:"database-url-file" xor:"database" placeholder:"FILE" help:"File that holds the database URL."`
	Schema    *string `placeholder:"NAME" var:"LOCKSTEP_SCHEMA" help:"Schema that Lockstep lives in. Default: $$LOCKSTEP_SCHEMA, else lockstep."`
	ListenURL *string `name:"listen-database-url" placeholder:"URL" var:"LOCKSTEP_LISTEN_DATABASE_URL" help:"Database for the listener, straight to the server, where the database URL goes through a pooler."`

	Listen *string `placeholder:"ADDRESS" var:"LOCKSTEP_LISTEN" help:"Where to serve health, metrics and the API. Default: $$LOCKSTEP_LISTEN, else 127.0.0.1:8321."`

	APITokenFile     *string  `name:"api-token-file" placeholder:"FILE" var:"LOCKSTEP_API_TOKEN_FILE" help:"File with the token that the API asks for; any address but loopback needs one. Default: $$LOCKSTEP_API_TOKEN_FILE; the token itself: $$LOCKSTEP_API_TOKEN."`
	APIReadTokenFile *string  `name:"api-read-token-file" placeholder:"FILE" var:"LOCKSTEP_API_READ_TOKEN_FILE" help:"File with a token that may only read. Default: $$LOCKSTEP_API_READ_TOKEN_FILE; the token itself: $$LOCKSTEP_API_READ_TOKEN."`
	APIHost          []string `name:"api-host" placeholder:"NAME" var:"LOCKSTEP_API_HOST" help:"Name under which a proxy on this machine serves the API of a loopback address; may be repeated. Default: $$LOCKSTEP_API_HOST."`

	Lease       *sidecar.Duration `placeholder:"DURATION" var:"LOCKSTEP_LEASE" help:"How long a dead worker's jobs wait for another. Default: $$LOCKSTEP_LEASE, else 30s."`
	Poll        *sidecar.Duration `placeholder:"DURATION" var:"LOCKSTEP_POLL" help:"How long a queue may go unlooked at. Default: $$LOCKSTEP_POLL, else 2s."`
	Grace       *sidecar.Duration `placeholder:"DURATION" var:"LOCKSTEP_GRACE" help:"How long handlers may go on when asked to end. Default: $$LOCKSTEP_GRACE, else 30s."`
	Concurrency *int              `placeholder:"N" var:"LOCKSTEP_CONCURRENCY" help:"Jobs at a time, per queue. Default: $$LOCKSTEP_CONCURRENCY, else 10."`
	Queue       []string          `placeholder:"NAME[=N]" var:"LOCKSTEP_QUEUE" help:"Queue to work on, and its concurrency; may be repeated. Default: $$LOCKSTEP_QUEUE, else default."`

	Push           []string          `placeholder:"[KIND=]URL" var:"LOCKSTEP_PUSH" help:"Where to push jobs, all or those of a kind (mail.*); may be repeated. Default: $$LOCKSTEP_PUSH."`
	PushTimeout    *sidecar.Duration `placeholder:"DURATION" var:"LOCKSTEP_PUSH_TIMEOUT" help:"Bound of a whole exchange. Default: $$LOCKSTEP_PUSH_TIMEOUT, else 1m."`
	PushParallel   *int              `placeholder:"N" var:"LOCKSTEP_PUSH_PARALLEL" help:"Pushes to a target at a time. Default: $$LOCKSTEP_PUSH_PARALLEL, else 100."`
	PushSecretFile []string          `placeholder:"FILE" var:"LOCKSTEP_PUSH_SECRET_FILE" help:"File with a secret to sign pushes with; two while one is being replaced. Default: $$LOCKSTEP_PUSH_SECRET_FILE, else pushes are not signed."`
	PushAllow      []string          `placeholder:"RANGE" var:"LOCKSTEP_PUSH_ALLOW" help:"Addresses that targets may have. Default: $$LOCKSTEP_PUSH_ALLOW, else loopback."`
}

// settings are the file's, and over them what was given here. An empty file
// name is none.
func (f *sidecarFlags) settings(env func(string) string) (*sidecar.Settings, error) {
	var all []sidecar.Given
	give(&all, "database.url", "database-url", f.URL, func(s *sidecar.Settings) *string { return &s.Database.URL })
	give(&all, "database.url_file", "database-url-file", f.URLFile, func(s *sidecar.Settings) *string { s.Database.URL = ""; return &s.Database.URLFile })
	give(&all, "database.schema", "schema", f.Schema, func(s *sidecar.Settings) *string { return &s.Database.Schema })
	give(&all, "database.listen_url", "listen-database-url", f.ListenURL, func(s *sidecar.Settings) *string { return &s.Database.ListenURL })
	give(&all, "listen", "listen", f.Listen, func(s *sidecar.Settings) *string { return &s.Listen })
	give(&all, "api_token_file", "api-token-file", f.APITokenFile, func(s *sidecar.Settings) *string { return &s.APITokenFile })
	give(&all, "api_read_token_file", "api-read-token-file", f.APIReadTokenFile, func(s *sidecar.Settings) *string { return &s.APIReadTokenFile })
	give(&all, "api_hosts", "api-host", orNil(f.APIHost), func(s *sidecar.Settings) *[]string { return &s.APIHosts })
	give(&all, "lease", "lease", f.Lease, func(s *sidecar.Settings) *sidecar.Duration { return &s.Lease })
	give(&all, "poll", "poll", f.Poll, func(s *sidecar.Settings) *sidecar.Duration { return &s.Poll })
	give(&all, "grace", "grace", f.Grace, func(s *sidecar.Settings) *sidecar.Duration { return &s.Grace })
	give(&all, "concurrency", "concurrency", f.Concurrency, func(s *sidecar.Settings) *int { return &s.Concurrency })
	give(&all, "push_timeout", "push-timeout", f.PushTimeout, func(s *sidecar.Settings) *sidecar.Duration { return &s.PushTimeout })
	give(&all, "push_parallel", "push-parallel", f.PushParallel, func(s *sidecar.Settings) *int { return &s.PushParallel })
	give(&all, "push_secret_files", "push-secret-file", orNil(f.PushSecretFile), func(s *sidecar.Settings) *[]string { return &s.PushSecretFiles })
	give(&all, "push_allow", "push-allow", orNil(f.PushAllow), func(s *sidecar.Settings) *[]string { return &s.PushAllow })
	push, err := parsePushes(f.Push)
	if err != nil {
		return nil, err
	}
	give(&all, "push", "push", orNil(push), func(s *sidecar.Settings) *[]sidecar.Push { return &s.Push })
	queues, err := parseQueues(f.Queue)
	if err != nil {
		return nil, err
	}
	if len(queues) > 0 {
		give(&all, "queues", "queue", &queues, func(s *sidecar.Settings) *map[string]sidecar.Queue { return &s.Queues })
	}
	s, err := sidecar.Load(f.Config, all)
	if err != nil {
		return nil, usage("%v", err)
	}
	// Not flags: a command line can be read by every user of the machine.
	s.APIToken, s.APIReadToken = env("LOCKSTEP_API_TOKEN"), env("LOCKSTEP_API_READ_TOKEN")
	return s, nil
}

// give notes a setting that was given.
func give[T any](all *[]sidecar.Given, path, flag string, value *T, field func(*sidecar.Settings) *T) {
	if value != nil {
		*all = append(*all, sidecar.Given{Path: path, Where: "--" + flag, Set: func(s *sidecar.Settings) { *field(s) = *value }})
	}
}

func orNil[T any](list []T) *[]T {
	if len(list) == 0 {
		return nil
	}
	return &list
}

// parsePushes reads URLs, each after a kind if it is for that alone.
func parsePushes(texts []string) (all []sidecar.Push, err error) {
	for _, text := range texts {
		kind, url, ok := strings.Cut(text, "=")
		if !ok || strings.Contains(kind, "://") {
			kind, url = "", text
		}
		if url == "" {
			return nil, usage("--push %s names no URL", text)
		}
		all = append(all, sidecar.Push{Kind: kind, URL: url})
	}
	return all, nil
}

// parseQueues reads names, each with its concurrency if it has one of its own.
func parseQueues(texts []string) (map[string]sidecar.Queue, error) {
	all := make(map[string]sidecar.Queue)
	for _, text := range texts {
		name, number, given := strings.Cut(text, "=")
		q := sidecar.Queue{}
		if given {
			n, err := strconv.Atoi(number)
			if err != nil || n < 1 {
				return nil, usage("--queue %s: %q is not a number of jobs", text, number)
			}
			q.Concurrency = n
		}
		if _, twice := all[name]; twice || name == "" {
			return nil, usage("--queue %s: a queue is named twice, or not at all", text)
		}
		all[name] = q
	}
	return all, nil
}

// variables fills flags that were not given from the variables that their tag
// var names, unless a flag was given that stands for the same.
func variables(env func(string) string) kong.Resolver {
	return kong.ResolverFunc(func(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		name := flag.Tag.Get("var")
		if name == "" || env(name) == "" || slices.ContainsFunc(ctx.Flags(), func(other *kong.Flag) bool { return rivals(flag, other) && other.Set }) {
			return nil, nil
		}
		return env(name), nil
	})
}

// rivals tells whether only one of two flags may be given.
func rivals(a, b *kong.Flag) bool {
	return a != b && slices.ContainsFunc(a.Xor, func(group string) bool { return slices.Contains(b.Xor, group) })
}

// configCommand is about files of settings.
type configCommand struct {
	Check   configCheckCommand   `cmd:"" help:"Read the settings of run and drain, and say what is wrong with them."`
	Example configExampleCommand `cmd:"" help:"Show a file of settings with all of them."`
}

type configCheckCommand struct{ sidecarFlags }

// Run checks what run would.
func (c *configCheckCommand) Run(a *app) error {
	s, err := c.settings(a.env)
	if err == nil {
		_, err = s.Routes(nil)
	}
	if err == nil {
		err = s.CheckAccess()
	}
	if err == nil {
		_, err = parseDatabases(s, a.env)
	}
	if err != nil {
		return usage("%v", err)
	}
	fmt.Fprintln(a.stdout, "The settings are sound.")
	return nil
}

type configExampleCommand struct{}

// Run prints the example.
func (configExampleCommand) Run(a *app) error {
	_, err := fmt.Fprint(a.stdout, sidecar.Example)
	return err
}
