package listener

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxChannelBytes is PostgreSQL's NAMEDATALEN - 1: LISTEN would silently cut
// a longer name, and pg_notify refuses it.
const maxChannelBytes = 63

// Config says what to listen to and whom to tell. Connect, Channel, OnSignal
// and OnCatchUp are required.
type Config struct {
	// Connect opens a fresh connection straight to the server; a pooled one
	// will not do, nor one with an OnNotification of its own, which keeps all
	// notifications from the listener. The listener closes it. Called for every
	// attempt, with a context that ends after ProbeTimeout.
	Connect func(ctx context.Context) (*pgx.Conn, error)

	// Channel is the name to LISTEN on: 1 to 63 bytes, any characters.
	Channel string

	// OnSignal receives every signal but probes, also those that could not be
	// understood (Class Unknown: look everywhere). It is called on the
	// connection's goroutine and must not block: note it and return.
	OnSignal func(Signal)

	// OnCatchUp is called each time LISTEN stands on a new connection, also
	// the first: look for what was committed while nobody listened. It is
	// called on the connection's goroutine and must not block.
	OnCatchUp func()

	// OnState is told of every change of State.Mode, in order. It is called
	// on the connection's goroutine and must not block. Nil: nobody is told.
	OnState func(State)

	// Probe sends payload to Channel over any connection but the listener's
	// own (see Notify). Its context ends after ProbeTimeout and for no other
	// reason, so that an interruption never costs that connection; it may be
	// called again before it has returned. While it returns errors it is
	// repeated, until ProbeTimeout has passed. Nil: each probe is sent
	// over a connection opened by Connect and closed again, which is right but
	// costs a connection for a moment.
	Probe func(ctx context.Context, payload string) error

	// ProbeInterval is how long the channel may be silent before a probe is
	// sent. Each wait is shortened at random by up to a quarter: everybody on
	// the channel hears a probe, so mostly one of many listeners sends it.
	// Zero: 10 s.
	ProbeInterval time.Duration

	// ProbeTimeout bounds each of connecting, LISTEN, and a probe's way from
	// sending to hearing it. A connection that died silently is found at the
	// latest ProbeInterval + ProbeTimeout after it was last heard. Zero: 10 s.
	ProbeTimeout time.Duration

	// MaxBackoff is the longest wait before an attempt, jitter included.
	// Zero: 15 s.
	MaxBackoff time.Duration

	// HealthyAfter is how long a connection must stay verified for the backoff
	// to start anew. Zero: 1 min.
	HealthyAfter time.Duration

	// Logger gets one line for every change of mode and every failed attempt;
	// payloads never. Nil: slog.Default().
	Logger *slog.Logger
}

// withDefaults returns a copy in which zero values are replaced.
func (c Config) withDefaults() Config {
	setDefault(&c.ProbeInterval, 10*time.Second)
	setDefault(&c.ProbeTimeout, 10*time.Second)
	setDefault(&c.MaxBackoff, 15*time.Second)
	setDefault(&c.HealthyAfter, time.Minute)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.OnState == nil {
		c.OnState = func(State) {}
	}
	return c
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d == 0 {
		*d = to
	}
}

// validate names the first field that can't be used.
func (c Config) validate() error {
	switch {
	case c.Connect == nil:
		return errors.New("listener: Connect is required")
	case c.OnSignal == nil:
		return errors.New("listener: OnSignal is required")
	case c.OnCatchUp == nil:
		return errors.New("listener: OnCatchUp is required")
	case c.Channel == "" || len(c.Channel) > maxChannelBytes:
		return fmt.Errorf("listener: Channel is %d bytes long, want 1 to %d", len(c.Channel), maxChannelBytes)
	case c.ProbeInterval < 0:
		return fmt.Errorf("listener: ProbeInterval is negative: %v", c.ProbeInterval)
	case c.ProbeTimeout < 0:
		return fmt.Errorf("listener: ProbeTimeout is negative: %v", c.ProbeTimeout)
	case c.MaxBackoff < 0:
		return fmt.Errorf("listener: MaxBackoff is negative: %v", c.MaxBackoff)
	case c.HealthyAfter < 0:
		return fmt.Errorf("listener: HealthyAfter is negative: %v", c.HealthyAfter)
	}
	return nil
}
