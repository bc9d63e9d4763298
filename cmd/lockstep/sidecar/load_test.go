package sidecar

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lockstep.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestBadSettings are refused with the line and the name of what is wrong, and
// no secret is quoted.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	const push = "push: [{url: 'http://127.0.0.1:1/'}]\n"
	for want, content := range map[string]string{
		`2: unknown setting "quues"`:                  push + "quues: {}",
		`3: unknown setting "concurency"`:             push + "queues:\n  default: {concurency: 3}",
		`2: lease: it is 10ms, want 1s to 24h0m0s`:    push + "lease: 10ms",
		`2: grace: it is 0 or empty`:                  push + "grace: 0s",
		`2: push_parallel: it is 0 or empty`:          push + "push_parallel: 0",
		`2: "soon" is not a span of time`:             push + "lease: soon",
		`2: "30" is not a span of time`:               push + "grace: 30",
		`2: api_hosts: "http://a" is not a host's n`:  push + "api_hosts: ['http://a']",
		`2: listen: "nowhere" is not an address`:      push + "listen: nowhere",
		`3: queues.a.b.concurrency: it is -1, want 1`: push + "queues:\n  a.b: {concurrency: -1}",
		`2: this is text, which can't stand here`:     push + "concurrency: MARKER",
		`2: this is a list, which can't stand here`:   push + "listen: [MARKER]",
		`2: "push" is there already, in line 1`:       push + push,
		`2: push[0]: url: it must begin with http`:    "push:\n- url: ftp://MARKER/",
		`3: push[0]: timeout: it is -1s`:              "push:\n- url: http://127.0.0.1:1/\n  timeout: -1s",
		`3: push[0]: secrets: number 1 is not base64`: "push:\n- url: http://127.0.0.1:1/\n  secrets: [MARKER!]",
		`3: push[0]: secret_files: open /nowhere`:     "push:\n- url: http://127.0.0.1:1/\n  secret_files: [/nowhere]",
		`3: push[0]: allow: "10.0.0.0/99" is not`:     "push:\n- url: http://127.0.0.1:1/\n  allow: [10.0.0.0/99]",
		`3: push[0]: answers: "9xx" is not a status`:  "push:\n- url: http://127.0.0.1:1/\n  answers: {9xx: dead}",
		`2: command[0]: args: no program`:             "command:\n- args: []",
		`3: command[0]: dir: stat /nowhere`:           "command:\n- args: [cat]\n  dir: /nowhere",
		`2: push[0]: url: its port is 99999`:          "push:\n- url: http://127.0.0.1:99999/",
		`3: push[0]: kind: a * stands for any end`:    "push:\n- url: http://127.0.0.1:1/\n  kind: a*b",
		`3: push[0]: queue: a * stands for any end`:   "push:\n- url: http://127.0.0.1:1/\n  queue: '**'",
		`3: push[0]: kind: it is 201 bytes long`:      "push:\n- url: http://127.0.0.1:1/\n  kind: " + strings.Repeat("x", 201),
		`3: push[1]: push[0] has queue *, kind * alr`: "push:\n- url: http://127.0.0.1:1/\n- {url: 'http://127.0.0.1:2/', kind: '*'}",
		`3: command[0]: push[0] has queue a, kind k`:  "push: [{url: 'http://127.0.0.1:1/', queue: a, kind: k}]\ncommand:\n- {args: [cat], queue: a, kind: k}",
		`3: queues.b: no push or command serves`:      "push: [{url: 'http://127.0.0.1:1/', queue: a}]\nqueues:\n  b: {}\n  a: {}",
		`there is nothing to do for a job`:            "lease: 3s",
		`there is a second document`:                  push + "---\nlease: 3s",
		`1: not YAML: `:                               "push: [",
	} {
		file := write(t, content)
		s, err := Load(file, nil)
		if err == nil {
			_, err = s.Routes(nil)
		}
		var value *ValueError
		if err == nil || !errors.As(err, &value) || strings.Contains(err.Error(), "MARKER") {
			t.Errorf("%q: %v", content, err)
			continue
		}
		place := strings.TrimPrefix(strings.TrimPrefix(err.Error(), file), ":")
		if !strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(place, " "), "push: "), want) {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
}

// TestPrecedence: what is given goes before the file, and that before the
// defaults; what a push has of its own before what holds for all.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := write(t, "lease: 7s\npoll: 3s\npush_timeout: 5s\npush_parallel: 3\npush:\n- {url: 'http://127.0.0.1:1/', parallel: 4}\nqueues: {a: {}, b: {concurrency: 2}}\n")
	s, err := Load(file, []Given{
		{Path: "lease", Where: "--lease", Set: func(s *Settings) { s.Lease = Duration(9 * time.Second) }},
		{Path: "concurrency", Where: "--concurrency", Set: func(s *Settings) { s.Concurrency = 20 }},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Lease != Duration(9*time.Second) || s.Poll != Duration(3*time.Second) || s.Grace != defaultGrace || s.Listen != DefaultListen {
		t.Errorf("%+v", s)
	}
	if s.Push[0].Timeout != Duration(5*time.Second) || s.Push[0].Parallel != 4 || s.Queues["a"].Concurrency != 20 || s.Queues["b"].Concurrency != 2 {
		t.Errorf("%+v, %+v", s.Push, s.Queues)
	}
	_, err = Load(file, []Given{{Path: "lease", Where: "--lease", Set: func(s *Settings) { s.Lease = -1 }}})
	if err == nil || !strings.HasPrefix(err.Error(), "--lease: lease: it is -1ns") {
		t.Errorf("%v", err)
	}
	_, err = Load(file, []Given{{Path: "concurrency", Where: "--concurrency", Set: func(s *Settings) { s.Concurrency = 0 }}})
	if err == nil || !strings.HasPrefix(err.Error(), "--concurrency: concurrency: it is 0") {
		t.Errorf("%v", err)
	}
	if _, err = Load("/nowhere", nil); err == nil || !strings.HasPrefix(err.Error(), "--config: ") {
		t.Errorf("%v", err)
	}
}

// TestAccess: who may use the API, and where no token will do; errors quote
// none.
func TestAccess(t *testing.T) {
	t.Parallel()
	const long, other = "MARKER-0123456789", "MARKER-9876543210"
	for name, c := range map[string]struct {
		s    Settings
		want string
	}{
		"loopback":        {Settings{Listen: DefaultListen}, ""},
		"all addresses":   {Settings{Listen: "0.0.0.0:1"}, "listen: 0.0.0.0:1 can be reached"},
		"no host":         {Settings{Listen: ":1"}, "listen: :1 can be reached"},
		"with a token":    {Settings{Listen: ":1", APIToken: long}, ""},
		"reading alone":   {Settings{Listen: ":1", APIReadToken: long}, ""},
		"twice the same":  {Settings{Listen: ":1", APIToken: long, APIReadToken: long}, "api_read_token_file: it holds the token"},
		"both":            {Settings{Listen: ":1", APIToken: long, APIReadToken: other}, ""},
		"short":           {Settings{Listen: DefaultListen, APIToken: "MARKER"}, "api_token_file: the token is 6 bytes long"},
		"file and value":  {Settings{Listen: DefaultListen, APIToken: long, APITokenFile: "x"}, "api_token_file: a file and a variable"},
		"no such file":    {Settings{Listen: DefaultListen, APITokenFile: "/nowhere"}, "api_token_file: open /nowhere"},
		"an empty file":   {Settings{Listen: DefaultListen, APITokenFile: write(t, "\n")}, "api_token_file: the token is 0 bytes long"},
		"what has spaces": {Settings{Listen: DefaultListen, APIToken: long + " " + other}, "api_token_file: the token holds spaces"},
		"a file":          {Settings{Listen: ":1", APITokenFile: write(t, long+"\n")}, ""},
	} {
		err := c.s.CheckAccess()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "MARKER")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Example)
	f.Add("push: &a [*a]")
	f.Add("? [a]\n: b")
	f.Fuzz(func(t *testing.T, content string) {
		s := &Settings{origin: make(map[string]string)}
		if err := s.parse("file", []byte(content)); err == nil {
			s.complete()
			_ = s.validate()
		}
	})
}
