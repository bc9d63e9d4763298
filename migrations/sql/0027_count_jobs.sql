-- replaceable
-- Counts for metrics.

-- count_jobs counts the jobs by queue and state, at most once in max_age over
-- the whole fleet, and the less often the longer a count takes: it is at work
-- a twentieth of the time at most. Who asks in between, or while another
-- counts, gets the last count; counted_at is null before the first.
--
-- counts are [{queue, state, jobs, soonest}]; soonest is the earliest time at
-- which a job of them was or will be due.
create or replace function @schema@.count_jobs(max_age interval default '5 seconds', out counted_at timestamptz, out counts jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $lockstep$
#variable_conflict use_column
declare
  began constant timestamptz := clock_timestamp();
  last  @schema@.fleet_stats;
begin
  perform @schema@.require_read_committed();
  for pass in 1..2 loop
    select s.* into last from @schema@.fleet_stats s;
    if last.counted_at > began - greatest(count_jobs.max_age, 20 * last.took)
       or pass = 1 and not pg_try_advisory_xact_lock(@schema@.own_mutex('count_jobs')) then
      counted_at := last.counted_at;
      counts := last.counts;
      return;
    end if;
  end loop; -- the lock is newer than the first look
  select coalesce(jsonb_agg(c), '[]') into counts
    from (select q.queue, q.state, sum(q.jobs) as jobs, @schema@.json_time(min(q.soonest)) as soonest
            from @schema@.queue_stats q where q.state <> 'dead' group by q.queue, q.state
          union all
          select d.queue, 'dead', count(*), null from @schema@.dead_job d group by d.queue) c;
  counted_at := clock_timestamp();
  insert into @schema@.fleet_stats as s (counted_at, took, counts) values (counted_at, counted_at - began, counts)
  on conflict (only_row) do update set counted_at = excluded.counted_at, took = excluded.took, counts = excluded.counts;
end $lockstep$;
