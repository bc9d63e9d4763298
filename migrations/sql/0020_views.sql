-- replaceable
-- What people read. One spelling of the states everywhere.

create or replace function @schema@.state_of(stage "char", hold "char", settled boolean, outcome text, worker uuid, attempt integer) returns text
language sql immutable parallel safe
return case
  when settled then outcome
  when stage = 's' then 'scheduled'
  when stage in ('e', 'w') then 'waiting'
  when stage = 'r' then case when worker = @schema@.nobody() then 'ready' else 'running' end
  when hold = 'x' then 'dead'
  when hold = 'p' then 'ready'
  when attempt > 0 then 'retrying'
  else 'scheduled' end;

-- waiting_for tells why a live job does not run, and null if it runs, or may run
-- as soon as a dispatcher has a slot: a few look-ups by index, whatever there is.
-- The view sorts all that it reads: for a page of jobs, ask for them by id.
create or replace function @schema@.waiting_for(id bigint, stage "char", hold "char", settled boolean, worker uuid, attempt integer,
  run_at timestamptz, queue text, kind text, tenant text, ordering_key text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off -- dispatchers are few and have no index for this: a scan that is "off" seems dear enough to be compiled
as $lockstep$
#variable_conflict use_column
declare
  head record;
begin
  if settled or hold = 'x' or stage = 'r' and worker <> @schema@.nobody() then
    return null;
  elsif stage in ('w', 'e') then
    select j.id, j.hold into head from @schema@.job j
     where j.queue = waiting_for.queue and j.tenant = waiting_for.tenant and j.ordering_key = waiting_for.ordering_key and j.stage in ('r', 'b');
    return case when not found then 'its lane''s next sweep' when head.hold = 'x' then 'lane blocked by dead job ' || head.id
                else 'behind job ' || head.id end;
  elsif hold = '-' and stage in ('s', 'b') and run_at > clock_timestamp() then
    return case when stage = 's' then 'scheduled for ' when attempt > 0 then 'retry at ' else 'snoozed until ' end
      || to_char(run_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
  end if;
  return coalesce(@schema@.pause_over(queue, kind, tenant, ordering_key) || ' paused', case when not exists (
    select from @schema@.dispatcher d where d.seen_at > clock_timestamp() - 3 * d.lease
       and waiting_for.queue = any (d.queues) and @schema@.kind_rank(waiting_for.kind, d.kinds) >= 0) then 'no live dispatcher handles this kind' end);
end $lockstep$;

-- pause_over is what of a job is paused: queue, kind, tenant or key; null: nothing.
create or replace function @schema@.pause_over(queue text, kind text, tenant text, ordering_key text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
declare
  what text;
begin
  foreach what in array '{queue,kind,tenant,key}'::text[] loop
    if exists (
      select from @schema@.pause p
       where p.scope = what and p.queue in ('', pause_over.queue)
         and p.kind = case when what = 'kind' then pause_over.kind else '' end
         and p.tenant = case when what in ('tenant', 'key') then pause_over.tenant else '' end
         and p.ordering_key = case when what = 'key' then pause_over.ordering_key else '' end)
    then
      return what;
    end if;
  end loop;
  return null;
end $lockstep$;

create or replace view @schema@.jobs as
select j.id, @schema@.state_of(j.stage, j.hold, j.settled, j.outcome, j.worker, j.attempt) as state,
       j.queue, j.kind, j.tenant, j.ordering_key, j.priority, j.attempt, j.max_attempts, nullif(j.fence, 0) as fence,
       nullif(j.worker, @schema@.nobody()) as worker, nullif(j.run_at, 'infinity') as run_at, j.created_at,
       nullif(j.claimed_at, '-infinity') as claimed_at, nullif(j.lease_until, '-infinity') as lease_until, j.ended_at as finished_at,
       j.payload, j.headers, j.result, coalesce(j.error, d.error) as error,
       @schema@.waiting_for(j.id, j.stage, j.hold, j.settled, j.worker, j.attempt, j.run_at, j.queue, j.kind, j.tenant, j.ordering_key) as waiting_for
  from @schema@.job j left join @schema@.dead_job d on d.id = j.id and d.blocking
union all
select f.id, f.outcome, f.queue, f.kind, f.tenant, f.ordering_key, f.priority, f.attempt, f.max_attempts, nullif(f.fence, 0),
       nullif(f.worker, @schema@.nobody()), f.run_at, f.created_at, nullif(f.claimed_at, '-infinity'), null, f.finished_at,
       f.payload, f.headers, f.result, f.error, null
  from @schema@.finished_job f
union all
select d.id, 'dead', d.queue, d.kind, d.tenant, d.ordering_key, d.priority, d.attempt, d.max_attempts, nullif(d.fence, 0),
       nullif(d.worker, @schema@.nobody()), d.run_at, d.created_at, nullif(d.claimed_at, '-infinity'), null, d.died_at,
       d.payload, d.headers, null, d.error, null
  from @schema@.dead_job d where not d.blocking;

create or replace view @schema@.attempts as
select a.job_id, a.attempt, a.outcome, a.error, a.fence, a.worker, a.claimed_at, a.ended_at from @schema@.attempt a;

create or replace view @schema@.dead_jobs as
select d.id, d.queue, d.kind, d.tenant, d.ordering_key, d.blocking, d.attempt, d.max_attempts, d.fence, d.error, d.died_at, d.created_at,
       d.payload, d.headers
  from @schema@.dead_job d;

create or replace view @schema@.lanes as
select h.queue, h.tenant, h.ordering_key, h.id as head, h.kind as head_kind,
       @schema@.state_of(h.stage, h.hold, h.settled, h.outcome, h.worker, h.attempt) as head_state,
       (select count(*) from @schema@.job w where w.queue = h.queue and w.tenant = h.tenant and w.ordering_key = h.ordering_key and w.stage = 'w') as waiting,
       h.created_at as head_created_at
  from @schema@.job h where h.ordering_key is not null and h.stage in ('r', 'b');

create or replace view @schema@.dispatchers as
select d.id, d.name, d.queues, d.kinds, d.lease, d.started_at, d.seen_at, d.seen_at > clock_timestamp() - 3 * d.lease as alive
  from @schema@.dispatcher d;

-- queue_stats counts live jobs by queue, kind and state: a scan of the live
-- table, so ask seldom on a large one.
create or replace view @schema@.queue_stats as
select j.queue, j.kind, @schema@.state_of(j.stage, j.hold, j.settled, j.outcome, j.worker, j.attempt) as state, count(*) as jobs,
       min(j.created_at) as oldest, min(j.run_at) filter (where j.run_at < 'infinity') as soonest
  from @schema@.job j group by 1, 2, 3;

-- job_status is where one job stands; no row for an id that is not on record.
create or replace function @schema@.job_status(id bigint) returns setof @schema@.jobs
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
#variable_conflict use_column
begin
  return query select v.* from @schema@.jobs v where v.id = job_status.id;
end $lockstep$;

-- job_outline is the same without what a job carries and comes to, for those who
-- may not read that, or need not.
create or replace function @schema@.job_outline(id bigint) returns setof @schema@.jobs
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
#variable_conflict use_column
begin
  return query select v.id, v.state, v.queue, v.kind, v.tenant, v.ordering_key, v.priority, v.attempt, v.max_attempts, v.fence, v.worker, v.run_at,
      v.created_at, v.claimed_at, v.lease_until, v.finished_at, null::jsonb, null::jsonb, null::jsonb, v.error, v.waiting_for
    from @schema@.jobs v where v.id = job_outline.id;
end $lockstep$;
