package sidecar

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/lockstep-pg/lockstep/handler"
	"github.com/lockstep-pg/lockstep/store"
)

// Settings are what lockstep.yaml may hold. Each value that is no list can be
// given by flag and environment too, which go before the file.
type Settings struct {
	Database Database `yaml:"database"`
	Listen   string   `yaml:"listen"`

	// Who may use the API; the tokens themselves come from variables alone.
	APITokenFile     string   `yaml:"api_token_file"`
	APIReadTokenFile string   `yaml:"api_read_token_file"`
	APIHosts         []string `yaml:"api_hosts"`
	APIToken         string   `yaml:"-"`
	APIReadToken     string   `yaml:"-"`

	Lease       Duration         `yaml:"lease"`
	Poll        Duration         `yaml:"poll"`
	Grace       Duration         `yaml:"grace"`
	Concurrency int              `yaml:"concurrency"`
	Queues      map[string]Queue `yaml:"queues"`
	Push        []Push           `yaml:"push"`

	// For pushes that have none of their own.
	PushTimeout     Duration `yaml:"push_timeout"`
	PushParallel    int      `yaml:"push_parallel"`
	PushSecretFiles []string `yaml:"push_secret_files"`
	PushAllow       []string `yaml:"push_allow"`

	Command []Command `yaml:"command"`

	origin map[string]string // where a value comes from, by its path
}

// Database says which database to work on.
type Database struct {
	URL       string `yaml:"url"`
	URLFile   string `yaml:"url_file"`
	Schema    string `yaml:"schema"`
	ListenURL string `yaml:"listen_url"`
}

// Queue is how one queue is worked on.
type Queue struct {
	Concurrency int `yaml:"concurrency"`
}

// Push sends the jobs of some queues and kinds to a URL.
type Push struct {
	Queue       string            `yaml:"queue"`
	Kind        string            `yaml:"kind"`
	URL         string            `yaml:"url"`
	Timeout     Duration          `yaml:"timeout"`
	Parallel    int               `yaml:"parallel"`
	Secrets     []string          `yaml:"secrets"`
	SecretFiles []string          `yaml:"secret_files"`
	Allow       []string          `yaml:"allow"`
	Answers     map[string]string `yaml:"answers"`
}

// Command runs a program for the jobs of some queues and kinds.
type Command struct {
	Queue     string   `yaml:"queue"`
	Kind      string   `yaml:"kind"`
	Args      []string `yaml:"args"`
	Dir       string   `yaml:"dir"`
	Env       []string `yaml:"env"`
	Timeout   Duration `yaml:"timeout"`
	KillAfter Duration `yaml:"kill_after"`
}

// Duration is a time span as Go writes it: 500ms, 30s, 1h30m.
type Duration time.Duration

// The defaults of what is not given.
const (
	DefaultListen      = "127.0.0.1:8321"
	defaultConcurrency = 10
	defaultLease       = Duration(30 * time.Second)
	defaultPoll        = Duration(2 * time.Second)
	defaultGrace       = Duration(30 * time.Second)
)

// complete fills in the defaults.
func (s *Settings) complete() {
	setDefault(&s.Database.Schema, store.DefaultSchema)
	setDefault(&s.Listen, DefaultListen)
	setDefault(&s.Lease, defaultLease)
	setDefault(&s.Poll, defaultPoll)
	setDefault(&s.Grace, defaultGrace)
	setDefault(&s.Concurrency, defaultConcurrency)
	if len(s.Queues) == 0 {
		s.Queues = map[string]Queue{"default": {}}
	}
	for name, q := range s.Queues {
		setDefault(&q.Concurrency, s.Concurrency)
		s.Queues[name] = q
	}
	for i := range s.Push {
		p := &s.Push[i]
		setDefault(&p.Timeout, s.PushTimeout)
		setDefault(&p.Parallel, s.PushParallel)
		if len(p.Secrets)+len(p.SecretFiles) == 0 {
			p.SecretFiles = s.PushSecretFiles
		}
		if len(p.Allow) == 0 {
			p.Allow = s.PushAllow
		}
	}
}

// checkZeros refuses what was given as 0: nobody means the default by it.
func (s *Settings) checkZeros() error {
	for path, zero := range map[string]bool{
		"lease": s.Lease == 0, "poll": s.Poll == 0, "grace": s.Grace == 0, "concurrency": s.Concurrency == 0,
		"push_timeout": s.PushTimeout == 0, "push_parallel": s.PushParallel == 0,
	} {
		if zero && s.origin[path] != "" {
			return s.bad(path, errors.New("it is 0 or empty; leave it out for the default"))
		}
	}
	return nil
}

func setDefault[T comparable](field *T, to T) {
	var zero T
	if *field == zero {
		*field = to
	}
}

// validate refuses values that can't be meant, and says where they stand.
func (s *Settings) validate() error {
	if _, err := net.ResolveTCPAddr("tcp", s.Listen); err != nil {
		return s.bad("listen", fmt.Errorf("%q is not an address like 127.0.0.1:8321", s.Listen))
	}
	for _, host := range s.APIHosts {
		if host == "" || strings.ContainsAny(host, ":/ ") || host != strings.ToLower(host) {
			return s.bad("api_hosts", fmt.Errorf("%q is not a host's name in lower case, without a port", host))
		}
	}
	for _, d := range []struct {
		path        string
		value       Duration
		least, most time.Duration
	}{
		{"lease", s.Lease, time.Second, 24 * time.Hour},
		{"poll", s.Poll, 10 * time.Millisecond, 24 * time.Hour},
		{"grace", s.Grace, time.Millisecond, 24 * time.Hour},
	} {
		if v := time.Duration(d.value); v < d.least || v > d.most {
			return s.bad(d.path, fmt.Errorf("it is %v, want %v to %v", v, d.least, d.most))
		}
	}
	for name, q := range s.Queues {
		path := "queues." + name
		if name == "" || len(name) > maxName {
			return s.bad(path, fmt.Errorf("a queue's name is 1 to %d bytes long", maxName))
		}
		if q.Concurrency < 1 || q.Concurrency > 10000 {
			return s.bad(path+".concurrency", fmt.Errorf("it is %d, want 1 to 10000", q.Concurrency))
		}
	}
	if len(s.Push)+len(s.Command) == 0 {
		return s.bad("push", fmt.Errorf("there is nothing to do for a job: give --push URL, set LOCKSTEP_PUSH, or list targets under push or command"))
	}
	return nil
}

// Routes builds what the jobs are sent to. sent, if not nil, is told of each
// exchange with a target.
func (s *Settings) Routes(sent func(target string, status int, took time.Duration)) (handler.Routes, error) {
	if err := s.checkPlaces(); err != nil {
		return nil, err
	}
	var routes handler.Routes
	for i, p := range s.Push {
		push, err := p.handler(sent)
		if err != nil {
			return nil, s.bad(fmt.Sprintf("push[%d]", i), err)
		}
		routes = append(routes, handler.Route{Queue: p.Queue, Kind: p.Kind, To: push})
	}
	for i, c := range s.Command {
		command, err := handler.NewCommand(handler.CommandConfig{
			Args: c.Args, Dir: c.Dir, Env: c.Env, Timeout: time.Duration(c.Timeout), KillAfter: time.Duration(c.KillAfter),
		})
		if err != nil {
			return nil, s.bad(fmt.Sprintf("command[%d]", i), err)
		}
		routes = append(routes, handler.Route{Queue: c.Queue, Kind: c.Kind, To: command})
	}
	for name := range s.Queues {
		if len(routes.Kinds(name)) == 0 {
			return nil, s.bad("queues."+name, fmt.Errorf("no push or command serves this queue"))
		}
	}
	return routes, nil
}

// returnGrace is how long a handler is waited for once it was told to end: longer
// than any program may take, so that each is killed before its job is given back.
func (s *Settings) returnGrace() (longest time.Duration) {
	for _, c := range s.Command {
		killAfter := c.KillAfter
		setDefault(&killAfter, Duration(handler.DefaultKillAfter))
		longest = max(longest, time.Duration(killAfter)+time.Second)
	}
	return longest
}

func (p Push) handler(sent func(string, int, time.Duration)) (*handler.Push, error) {
	config := handler.PushConfig{URL: p.URL, Timeout: time.Duration(p.Timeout), Parallel: p.Parallel, Secrets: p.Secrets}
	for _, file := range p.SecretFiles {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("secret_files: %w", err)
		}
		config.Secrets = append(config.Secrets, strings.TrimSpace(string(content)))
	}
	for _, text := range p.Allow {
		prefix, err := parsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("allow: %w", err)
		}
		config.Allow = append(config.Allow, prefix)
	}
	if len(p.Answers) > 0 {
		config.Answers = make(map[string]handler.Verdict)
		for status, verdict := range p.Answers {
			config.Answers[status] = handler.Verdict(verdict)
		}
	}
	var name string
	if sent != nil {
		config.Sent = func(status int, took time.Duration) { sent(name, status, took) }
	}
	push, err := handler.NewPush(config)
	if err == nil {
		name = push.Name()
	}
	return push, err
}

// parsePrefix reads an address or a range of them.
func parsePrefix(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, fmt.Errorf("%q is not an address and not a range like 10.0.0.0/8", text)
	}
	return prefix.Masked(), nil
}
