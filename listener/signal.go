package listener

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Class is the kind of a signal, the first letter of its payload.
type Class byte

// The classes of signals.
const (
	// Unknown: a payload nobody understands, from a newer version or a
	// stranger on the channel. It is a hint all the same: look everywhere.
	Unknown Class = 0
	// Runnable: "r <queue> <turn>": jobs of Queue can run, from Turn on.
	Runnable Class = 'r'
	// Due: "d <queue> <ms>": a job of Queue falls due at Due.
	Due Class = 'd'
	// Sweep: "w <queue>": a lane of Queue may have lost its head; sweep it.
	Sweep Class = 'w'
	// Cancel: "c <id> …" or "c *": the jobs in IDs, or any job if All, are to
	// be cancelled.
	Cancel Class = 'c'
	// Pause: "p": something was paused or resumed.
	Pause Class = 'p'
	// Probe: "x <nonce>": a listener asks whether it hears itself.
	Probe Class = 'x'
)

// Signal is one parsed notification. Which fields are set follows from Class.
type Signal struct {
	Class Class
	Queue string    // hash of the queue's name, lower-case hex
	Turn  int64     // the least turn that became runnable
	Due   time.Time // to the millisecond
	IDs   []int64   // jobs, at least one unless All
	All   bool      // too many jobs to list
	Nonce string    // letters and digits
}

// maxWord bounds queue hashes and nonces.
const maxWord = 64

// ParseSignal reads the payload of a notification. With an error the Signal is
// the zero one, whose class is Unknown. Payloads have one spelling: one space
// between words, no other signs, no leading zeros.
func ParseSignal(payload string) (Signal, error) {
	word := strings.Split(payload, " ")
	if len(word[0]) != 1 {
		return Signal{}, errors.New("parse signal: no class")
	}
	s := Signal{Class: Class(word[0][0])}
	parse, known := parsers[s.Class]
	if !known {
		return Signal{}, fmt.Errorf("parse signal: unknown class %q", word[0])
	}
	if err := parse(&s, word[1:]); err != nil {
		return Signal{}, fmt.Errorf("parse signal of class %q: %w", word[0], err)
	}
	return s, nil
}

var parsers = map[Class]func(*Signal, []string) error{
	Runnable: parseRunnable,
	Due:      parseDue,
	Sweep:    parseSweep,
	Cancel:   parseCancel,
	Pause:    func(_ *Signal, args []string) error { return want(0, args) },
	Probe:    parseProbe,
}

func parseRunnable(s *Signal, args []string) (err error) {
	if err = want(2, args); err != nil {
		return err
	}
	if s.Queue, err = parseHash(args[0]); err != nil {
		return err
	}
	s.Turn, err = parseInt(args[1])
	return err
}

func parseDue(s *Signal, args []string) (err error) {
	if err = want(2, args); err != nil {
		return err
	}
	if s.Queue, err = parseHash(args[0]); err != nil {
		return err
	}
	ms, err := parseInt(args[1])
	s.Due = time.UnixMilli(ms)
	return err
}

func parseSweep(s *Signal, args []string) (err error) {
	if err = want(1, args); err != nil {
		return err
	}
	s.Queue, err = parseHash(args[0])
	return err
}

func parseCancel(s *Signal, args []string) error {
	if len(args) == 1 && args[0] == "*" {
		s.All = true
		return nil
	}
	if len(args) == 0 {
		return errors.New("no job")
	}
	for _, arg := range args {
		id, err := parseInt(arg)
		if err != nil {
			return err
		}
		s.IDs = append(s.IDs, id)
	}
	return nil
}

func parseProbe(s *Signal, args []string) error {
	if err := want(1, args); err != nil {
		return err
	}
	s.Nonce = args[0]
	return checkWord("nonce", s.Nonce, func(c rune) bool {
		return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	})
}

func want(n int, args []string) error {
	if len(args) != n {
		return fmt.Errorf("%d arguments, want %d", len(args), n)
	}
	return nil
}

func parseHash(text string) (string, error) {
	return text, checkWord("queue hash", text, func(c rune) bool {
		return '0' <= c && c <= '9' || 'a' <= c && c <= 'f'
	})
}

func checkWord(what, text string, allowed func(rune) bool) error {
	if text == "" || len(text) > maxWord {
		return fmt.Errorf("%s of %d bytes, want 1 to %d", what, len(text), maxWord)
	}
	if strings.ContainsFunc(text, func(c rune) bool { return !allowed(c) }) {
		return fmt.Errorf("bad character in %s", what)
	}
	return nil
}

func parseInt(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errors.New("not a 64-bit integer")
	}
	if strconv.FormatInt(n, 10) != text {
		return 0, errors.New("integer not in its one spelling")
	}
	return n, nil
}
