package listener_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/listener"
)

// A pooler in transaction mode accepts LISTEN, and nothing ever comes.
func TestC16NothingIsDelivered(t *testing.T) {
	t.Parallel()
	var delivering atomic.Bool
	e := listen(t, testdb.Server(t), func(c *listener.Config) {
		notify := direct(t, testdb.Server(t), c.Channel)
		c.ProbeTimeout = 200 * time.Millisecond
		c.Probe = func(ctx context.Context, payload string) error {
			if !delivering.Load() {
				return nil
			}
			return notify(ctx, payload)
		}
	})
	await(t, "a catch-up without a verified connection", e.catchUps)
	e.notify("p") // a stray one proves nothing
	s := e.becomes(listener.PollOnly)
	if s.Unanswered != 1 || !strings.Contains(s.LastError, "unanswered") {
		t.Errorf("poll-only: %+v", s)
	}
	e.moreAttempts(3)
	if n := e.log.count("level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
	delivering.Store(true)
	e.becomes(listener.Connected)
}

func TestProbeIsSentAgainAfterAnError(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	e := listen(t, testdb.Server(t), func(c *listener.Config) {
		notify := direct(t, testdb.Server(t), c.Channel)
		c.Probe = func(ctx context.Context, payload string) error {
			if tries.Add(1) < 3 {
				return errors.New("a dead connection of a pool")
			}
			return notify(ctx, payload)
		}
	})
	if s := e.becomes(listener.Connected); s.Probes != 1 || s.Reconnects != 0 {
		t.Errorf("state: %+v", s)
	}
}

// Interrupting a probe would cost the connection it goes over, and that may be
// one that others need.
func TestProbeIsNotInterrupted(t *testing.T) {
	t.Parallel()
	probing, release := make(chan context.Context, 1), make(chan struct{})
	e := listen(t, testdb.Server(t), func(c *listener.Config) {
		notify := direct(t, testdb.Server(t), c.Channel)
		c.Probe = func(ctx context.Context, payload string) error {
			select {
			case probing <- ctx: // the first
				<-release
				return ctx.Err()
			default:
				return notify(ctx, payload)
			}
		}
	})
	await(t, "LISTEN to stand", e.catchUps)
	e.terminate()
	e.becomes(listener.Connected)
	if err := await(t, "the first probe", probing).Err(); err != nil {
		t.Errorf("the first probe's context ended with its session: %v", err)
	}
	close(release)
}

func TestProbeThatCannotBeSentSaysWhy(t *testing.T) {
	t.Parallel()
	e := listen(t, testdb.Server(t), func(c *listener.Config) {
		c.ProbeTimeout = 200 * time.Millisecond
		c.Probe = func(context.Context, string) error { return errors.New("pool is closed") }
	})
	if s := e.becomes(listener.PollOnly); !strings.Contains(s.LastError, "pool is closed") {
		t.Errorf("last error: %q", s.LastError)
	}
}

// C15: LISTEN is answered with an error, everything else works.
func TestC15ListenIsRefused(t *testing.T) {
	t.Parallel()
	filter := startFilter(t, testdb.Server(t))
	filter.refuse.Store(true)
	e := listen(t, testdb.Server(t), func(c *listener.Config) {
		c.Connect = dialer(viaPort(t, testdb.Server(t), filter.port()))
	})
	if s := e.becomes(listener.PollOnly); !strings.Contains(s.LastError, "42501") || s.CatchUps != 0 {
		t.Errorf("poll-only: %+v", s)
	}
	e.moreAttempts(3)
	if n := e.log.count("level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
	filter.refuse.Store(false)
	e.becomes(listener.Connected)
	e.hears("p")
}
