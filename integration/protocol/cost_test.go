package protocol_test

import "fmt"

// load puts n ready jobs in, past the triggers, which is quick. kind is the
// number of a job's kind, in SQL, over i; before all others in the line if
// turns is -1, behind them if it is 1.
func (s *scene) load(kind string, n, turns int) {
	s.exec(fmt.Sprintf(`alter table lockstep.job disable trigger user;
		insert into lockstep.job (kind, turn) select 'k' || %s, %d::bigint * 100000000 + i from generate_series(1, %d) i;
		alter table lockstep.job enable trigger user`, kind, turns, n))
}

// claimBuffers are the buffers that a claim of 20 jobs touches, with kinds k0,
// k1 … handled. Nothing stays claimed.
func (s *scene) claimBuffers(kinds int) int {
	c := s.enter()
	read := func() int {
		c.exec("begin")
		defer c.exec("rollback")
		return value[int](c, `select public.buffers(format($f$select jobs from lockstep.claim(%L, 'default',
			array(select 'k' || i from generate_series(0, %s) i), 20, '1 minute')$f$, $1::text, $2::text))`,
			c.worker.String(), fmt.Sprint(kinds-1))
	}
	c.exec(`create or replace function public.buffers(query text) returns int language plpgsql as $$
		declare
			plan json;
		begin
			execute 'explain (analyze, buffers, format json) ' || query into plan;
			return (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int;
		end $$`)
	read() // the first one reads the catalog
	return read()
}
