package sidecar

import (
	"errors"
	"fmt"
	"strings"
)

// maxName is how long the name of a queue or kind may be, in bytes.
const maxName = 200

// checkPlaces refuses routes that could not be meant: names that no job can
// have, and a second route for the same queue and kind, which would get nothing.
func (s *Settings) checkPlaces() error {
	taken := make(map[[2]string]string) // by queue and kind: the route
	for i, p := range s.Push {
		if err := s.checkPlace(taken, fmt.Sprintf("push[%d]", i), p.Queue, p.Kind); err != nil {
			return err
		}
	}
	for i, c := range s.Command {
		if err := s.checkPlace(taken, fmt.Sprintf("command[%d]", i), c.Queue, c.Kind); err != nil {
			return err
		}
	}
	return nil
}

func (s *Settings) checkPlace(taken map[[2]string]string, path, queue, kind string) error {
	if err := checkPattern(queue); err != nil {
		return s.bad(path, fmt.Errorf("queue: %w", err))
	}
	if err := checkPattern(kind); err != nil {
		return s.bad(path, fmt.Errorf("kind: %w", err))
	}
	at := [2]string{orAll(queue), orAll(kind)}
	if first := taken[at]; first != "" {
		return s.bad(path, fmt.Errorf("%s has queue %s, kind %s already: this one would get no job", first, at[0], at[1]))
	}
	taken[at] = path
	return nil
}

// checkPattern refuses what is neither a name nor a pattern that ends in *.
func checkPattern(text string) error {
	switch {
	case len(text) > maxName:
		return fmt.Errorf("it is %d bytes long, want at most %d", len(text), maxName)
	case strings.Contains(strings.TrimSuffix(text, "*"), "*"):
		return errors.New("a * stands for any end of a name: it can't be elsewhere in it")
	}
	return nil
}
