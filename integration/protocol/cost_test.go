package protocol_test

import (
	"fmt"
	"math"
	"testing"
)

// load puts n ready jobs in, past the triggers, which is quick. kind is the
// number of a job's kind, in SQL, over i; before all others in the line if
// turns is -1, behind them if it is 1.
func (s *scene) load(kind string, n, turns int) {
	s.exec(fmt.Sprintf(`alter table lockstep.job disable trigger user;
		insert into lockstep.job (kind, turn) select 'k' || %s, %d::bigint * 100000000 + i from generate_series(1, %d) i;
		alter table lockstep.job enable trigger user`, kind, turns, n))
}

// buffers are the buffers that a query touches, with all that it calls. What it
// does is undone, but leaves its traces on the pages.
func (c *session) buffers(query string) int {
	c.exec(`create or replace function public.buffers(query text) returns int language plpgsql as $$
		declare
			plan json;
		begin
			execute 'explain (analyze, buffers, format json) ' || query into plan;
			return (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int;
		end $$`)
	c.exec("begin")
	defer c.exec("rollback")
	return value[int](c, "select public.buffers($1)", query)
}

// claimBuffers are the buffers of a claim of 20 jobs of a queue, with kinds from
// k<first> to k<last> handled. The first claim of a session reads the catalog,
// so it is one of a queue of its own; and any may have to, when other sessions'
// changes to theirs came too fast to be followed, so the least of three counts.
func (s *scene) claimBuffers(queue string, first, last int) int {
	c := s.enter()
	claim := func(queue string) int {
		return c.buffers(fmt.Sprintf(`select jobs from lockstep.claim('%s', '%s',
			array(select 'k' || i from generate_series(%d, %d) i), 20, '1 minute')`, c.worker.String(), queue, first, last))
	}
	s.exec("insert into lockstep.job (kind, queue) select 'k' || $1::int, 'first' from generate_series(1, 20)", first)
	claim("first")
	s.exec("delete from lockstep.job where queue = 'first'")
	least := math.MaxInt
	for range 3 {
		c.exec("begin")
		least = min(least, claim(queue))
		c.exec("rollback")
	}
	return least
}

// TestAnEnqueueLooksUpOnlyItsOwnKeys: what it costs to find a dedupe key taken
// does not grow with the keys there are.
func TestAnEnqueueLooksUpOnlyItsOwnKeys(t *testing.T) {
	t.Parallel()
	run(t, func(s *scene) {
		s.exec("alter table lockstep.job set (autovacuum_enabled = off); select lockstep.enqueue('k', dedupe_key => 'taken')")
		s.exec("vacuum lockstep.job")
		calls := map[string]string{
			"enqueue":      "select lockstep.enqueue('k', dedupe_key => 'taken') from generate_series(1, 10)",
			"enqueue_many": `select lockstep.enqueue_many('[{"kind": "k", "dedupe_key": "taken"}, {"kind": "k", "dedupe_key": "fresh"}]') from generate_series(1, 10)`,
		}
		before := make(map[string]int)
		for name, call := range calls {
			s.buffers(call) // the session keeps its plans
			before[name] = s.buffers(call)
		}
		s.exec(`alter table lockstep.job disable trigger user;
			insert into lockstep.job (kind, dedupe_key) select 'k', i::text from generate_series(1, 30000) i;
			alter table lockstep.job enable trigger user`)
		for name, call := range calls {
			if after := s.buffers(call); after > 5*before[name] { // an index has grown by two levels; a scan of it would touch hundreds each time
				t.Errorf("%s touches %d buffers with 30,000 keys there, %d with one", name, after, before[name])
			}
		}
	})
}
