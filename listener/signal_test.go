package listener_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-pg/lockstep/listener"
)

func TestParseSignal(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]listener.Signal{
		"r 0aff 42":             {Class: listener.Runnable, Queue: "0aff", Turn: 42},
		"d 0aff 1700000000123":  {Class: listener.Due, Queue: "0aff", Due: time.UnixMilli(1700000000123)},
		"w 0aff":                {Class: listener.Sweep, Queue: "0aff"},
		"c 1":                   {Class: listener.Cancel, IDs: []int64{1}},
		"c 9223372036854775807": {Class: listener.Cancel, IDs: []int64{1<<63 - 1}},
		"c 3 1 2":               {Class: listener.Cancel, IDs: []int64{3, 1, 2}},
		"c *":                   {Class: listener.Cancel, All: true},
		"p":                     {Class: listener.Pause},
		"x Q2":                  {Class: listener.Probe, Nonce: "Q2"},
	} {
		got, err := listener.ParseSignal(payload)
		if err != nil || !cmp.Equal(want, got) {
			t.Errorf("%q: error %v, %s", payload, err, cmp.Diff(want, got))
		}
	}
}

var brokenSignals = []string{
	"", " ", "q", "rr 0a 1", "R 0a 1", "\x00", "é",
	"r", "r 0a", "r 0a 1 2", "r  0a 1", "r 0a 1 ", "r 0A 1", "r 0g 1", "r 0a x", "r 0a 01", "r 0a +1", "r 0a -0",
	"r 0a 9223372036854775808", "r " + strings.Repeat("a", 65) + " 1",
	"d 0a", "d 0a 1.5", "d 0a infinity", "w", "w 0a 1", "w \xff",
	"c", "c ", "c 1,2", "c 1 *", "c * *", "c 1  2", "p 1", "x", "x a b", "x ", "x é",
}

func TestParseSignalRefuses(t *testing.T) {
	t.Parallel()
	for _, payload := range brokenSignals {
		got, err := listener.ParseSignal(payload)
		if err == nil || !cmp.Equal(got, listener.Signal{}) {
			t.Errorf("%q: %+v, error %v", payload, got, err)
		}
	}
}

// FuzzParseSignal holds that a payload is either refused, leaving nothing
// behind, or has exactly one spelling: nothing in it was skipped or guessed.
func FuzzParseSignal(f *testing.F) {
	for _, payload := range brokenSignals {
		f.Add(payload)
	}
	for _, payload := range []string{"r 0a 1", "d 0a -1", "w 0a", "c 1 -2 3", "c *", "p", "x 0aZ"} {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		s, err := listener.ParseSignal(payload)
		if err != nil {
			if !cmp.Equal(s, listener.Signal{}) {
				t.Errorf("%q: error %v beside %+v", payload, err, s)
			}
			return
		}
		if got := spell(s); got != payload {
			t.Errorf("%q was read as %q", payload, got)
		}
	})
}

func spell(s listener.Signal) string {
	switch s.Class {
	case listener.Runnable:
		return fmt.Sprintf("r %s %d", s.Queue, s.Turn)
	case listener.Due:
		return fmt.Sprintf("d %s %d", s.Queue, s.Due.UnixMilli())
	case listener.Sweep:
		return "w " + s.Queue
	case listener.Cancel:
		if s.All {
			return "c *"
		}
		return "c " + strings.Trim(fmt.Sprint(s.IDs), "[]")
	case listener.Pause:
		return "p"
	case listener.Probe:
		return "x " + s.Nonce
	}
	return "unknown"
}
