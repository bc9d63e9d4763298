package demo

import (
	"context"
	"fmt"
	"io"
)

// judge proves what happened and reports it.
func (s *show) judge(ctx context.Context) error {
	jobs := s.list.jobs
	exact, err := s.book.keepsCommitTimes(ctx)
	if err != nil {
		return err
	}
	if exact {
		if err := s.book.commitTimes(ctx, jobs); err != nil {
			return err
		}
	}
	log, err := s.book.read(ctx)
	if err != nil {
		return err
	}
	effects, err := s.book.effects(ctx)
	if err != nil {
		return err
	}
	r := report{
		jobs: jobs, log: log, exact: exact, drain: s.drain,
		transactions: s.list.transactions, rolledBack: s.list.rolledBack, savepoints: s.list.savepoints,
		counts: s.tracker.snapshot(), keyless: s.tracker.latencies(jobs, false), keyed: s.tracker.latencies(jobs, true),
		verdict: prove(jobs, log), wrongEffects: wrongEffects(jobs, effects),
	}
	r.print(s.config.Out)
	if !r.verdict.clean() || r.wrongEffects > 0 {
		return ErrBroken
	}
	return nil
}

// wrongEffects counts transactional jobs whose effect is not there exactly once,
// or not there at all for a job that died.
func wrongEffects(jobs []sent, effects map[int64]int) int {
	wrong := 0
	for _, job := range jobs {
		want := 0
		if job.ledger && !job.plan.Dies {
			want = 1
		}
		if effects[job.id] != want {
			wrong++
		}
	}
	return wrong
}

// report is what the demo says at its end.
type report struct {
	jobs                                 []sent
	log                                  []entry
	exact                                bool // the server told when transactions were committed
	transactions, rolledBack, savepoints int
	counts                               counts
	drain                                drain
	keyless, keyed                       latencies
	verdict                              verdict
	wrongEffects                         int
}

func (r report) print(w io.Writer) {
	keyed, scheduled, ledger := 0, 0, 0
	lanes := make(map[string]bool)
	for _, job := range r.jobs {
		if job.lane != "" {
			keyed++
			lanes[job.lane] = true
		}
		if !job.notBefore.IsZero() {
			scheduled++
		}
		if job.ledger {
			ledger++
		}
	}
	fmt.Fprintf(w, "\nenqueued   %d jobs of %d tenants in %d transactions; %d transactions and %d savepoints rolled back\n",
		len(r.jobs), tenants, r.transactions, r.rolledBack, r.savepoints)
	fmt.Fprintf(w, "of these   %d keyed, in %d lanes; %d scheduled ahead; %d with a transactional handler\n",
		keyed, len(lanes), scheduled, ledger)
	fmt.Fprintf(w, "ran        %d attempts: %d completed, %d failed and retried, %d dead as planned\n",
		r.counts.attempts, r.counts.done, r.counts.retried, r.counts.died)
	fmt.Fprintf(w, "burst      %d jobs enqueued and drained in %.1f s: %.0f jobs/s, each writing two rows of its own\n",
		r.drain.jobs, r.drain.took.Seconds(), float64(r.drain.jobs)/r.drain.took.Seconds())
	fmt.Fprintf(w, "latency    from just before COMMIT to the handler's first line, outside the burst:\n")
	fmt.Fprintf(w, "           no key     %v\n", r.keyless)
	fmt.Fprintf(w, "           keyed      %v, with the wait for the jobs before it in its lane\n", r.keyed)
	fmt.Fprintf(w, "\nproof, from %d log rows of the handlers and %s:\n", len(r.log), r.clock())
	fmt.Fprintf(w, "started before due %d, run though rolled back %d, run again after the end %d, effects not exactly once %d\n",
		r.verdict.early, r.verdict.ghosts, r.verdict.repeated, r.wrongEffects)
	fmt.Fprintf(w, "lost %d\noverlapped %d\nout of order %d\n", r.verdict.lost, r.verdict.overlapped, r.verdict.outOfOrder)
}

func (r report) clock() string {
	if r.exact {
		return "the commit times that PostgreSQL keeps"
	}
	return "the producers' own clock (track_commit_timestamp is off: commits that overlap in time are not compared)"
}
