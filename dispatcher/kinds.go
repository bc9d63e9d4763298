package dispatcher

import (
	"fmt"
	"slices"
	"strings"
)

// kinds are what a queue is served for: the kinds and patterns of handlers.
// Queues without kinds of their own share one set.
type kinds struct {
	all      []string
	tx       []string // of all, the transactional ones
	patterns bool     // a pattern is among them
	handlers map[string]*handler
}

func newKinds(all []string, handlers map[string]*handler) *kinds {
	k := &kinds{all: all, handlers: handlers}
	for _, kind := range all {
		if handlers[kind].transactional {
			k.tx = append(k.tx, kind)
		}
		k.patterns = k.patterns || isPattern(kind)
	}
	return k
}

// isPattern tells of a kind that stands for all that begin like it.
func isPattern(kind string) bool { return strings.HasSuffix(kind, "*") }

// handler is the one for a kind: that of its name, or of the longest pattern
// that it meets. It is the rule by which claims choose, too (kind_rank in SQL).
func (k *kinds) handler(kind string) *handler {
	best, length := &unserved, -1
	for _, name := range k.all {
		if name == kind {
			return k.handlers[name]
		}
		if prefix, ok := strings.CutSuffix(name, "*"); ok && len(prefix) > length && strings.HasPrefix(kind, prefix) {
			best, length = k.handlers[name], len(prefix)
		}
	}
	return best
}

// without is what to claim when some kinds are to be left out. Patterns may
// meet what is left out: then it has to be named.
func (k *kinds) without(out []string) (want, except []string) {
	if len(out) == 0 {
		return k.all, nil
	}
	want = slices.DeleteFunc(slices.Clone(k.all), func(kind string) bool { return slices.Contains(out, kind) })
	if slices.ContainsFunc(want, isPattern) {
		except = out
	}
	return want, except
}

// Withhold has a queue's jobs of a kind, or pattern, as it was registered, left
// where they are, until Restore: for a handler that can't do its work for a
// while, and would only give back what is claimed for it. Jobs claimed already
// run. It lasts over several Runs, and means nothing for a kind without a
// handler.
func (d *Dispatcher) Withhold(queue, kind string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.withheld[queueKind{queue, kind}] = true
}

// Restore ends what Withhold began, and has the queue looked at.
func (d *Dispatcher) Restore(queue, kind string) {
	d.mu.Lock()
	delete(d.withheld, queueKind{queue, kind})
	d.mu.Unlock()
	if s := d.current.Load(); s != nil {
		for _, q := range s.queues {
			if q.name == queue {
				q.bell.ring(ByTimer)
			}
		}
	}
}

type queueKind struct{ queue, kind string }

// withheldKinds are the kinds that a queue's claims leave out.
func (d *Dispatcher) withheldKinds(q *queue) (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.withheld) == 0 {
		return nil
	}
	for _, kind := range q.kinds.all {
		if d.withheld[queueKind{q.name, kind}] {
			out = append(out, kind)
		}
	}
	return out
}

// checkKinds sees that a queue's kinds have handlers.
func (d *Dispatcher) checkKinds(handlers map[string]*handler) error {
	for name, q := range d.cfg.Queues {
		for _, kind := range q.Kinds {
			if handlers[kind] == nil {
				return fmt.Errorf("dispatcher: Queues[%q].Kinds has %q, which has no handler", name, kind)
			}
		}
	}
	return nil
}

// sharesKinds tells whether what may be taken over for q may be for other.
func (q *queue) sharesKinds(other *queue) bool {
	return q == other || q.kinds == other.kinds && len(q.shift.withheldKinds(q))+len(q.shift.withheldKinds(other)) == 0
}
