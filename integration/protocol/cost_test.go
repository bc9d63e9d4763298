package protocol_test

import (
	"fmt"
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

// buffers are the buffers that a query touches, with all that it calls: the
// least of some times, as the first one reads the catalog, and any may tidy up a
// page. What it does is undone.
func (c *session) buffers(query string) int {
	c.exec(`create or replace function public.buffers(query text) returns int language plpgsql as $$
		declare
			plan json;
		begin
			execute 'explain (analyze, buffers, format json) ' || query into plan;
			return (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int;
		end $$`)
	read := func() int {
		c.exec("begin")
		defer c.exec("rollback")
		return value[int](c, "select public.buffers($1)", query)
	}
	return min(read(), read(), read(), read())
}

// claimBuffers are the buffers of a claim of 20 jobs of a queue, with kinds k0,
// k1 … handled.
func (s *scene) claimBuffers(queue string, kinds int) int {
	c := s.enter()
	return c.buffers(fmt.Sprintf(`select jobs from lockstep.claim('%s', '%s',
		array(select 'k' || i from generate_series(0, %d) i), 20, '1 minute')`, c.worker.String(), queue, kinds-1))
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
			before[name] = s.buffers(call) // and the session keeps its plans
		}
		s.exec(`alter table lockstep.job disable trigger user;
			insert into lockstep.job (kind, dedupe_key) select 'k', i::text from generate_series(1, 30000) i;
			alter table lockstep.job enable trigger user`)
		for name, call := range calls {
			if after := s.buffers(call); after > 3*before[name] {
				t.Errorf("%s touches %d buffers with 30,000 keys there, %d with one", name, after, before[name])
			}
		}
	})
}
