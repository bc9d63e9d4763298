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
  when attempt > 0 then 'retrying'
  else 'scheduled' end;

create or replace view @schema@.jobs as
select j.id, @schema@.state_of(j.stage, j.hold, j.settled, j.outcome, j.worker, j.attempt) as state,
       j.queue, j.kind, j.tenant, j.ordering_key, j.priority, j.attempt, j.max_attempts, nullif(j.fence, 0) as fence,
       nullif(j.worker, @schema@.nobody()) as worker, nullif(j.run_at, 'infinity') as run_at, j.created_at,
       nullif(j.claimed_at, '-infinity') as claimed_at, nullif(j.lease_until, '-infinity') as lease_until, j.ended_at as finished_at,
       j.payload, j.headers, j.result, coalesce(j.error, d.error) as error
  from @schema@.job j left join @schema@.dead_job d on d.id = j.id and d.blocking
union all
select f.id, f.outcome, f.queue, f.kind, f.tenant, f.ordering_key, f.priority, f.attempt, f.max_attempts, nullif(f.fence, 0),
       nullif(f.worker, @schema@.nobody()), f.run_at, f.created_at, nullif(f.claimed_at, '-infinity'), null, f.finished_at,
       f.payload, f.headers, f.result, f.error
  from @schema@.finished_job f
union all
select d.id, 'dead', d.queue, d.kind, d.tenant, d.ordering_key, d.priority, d.attempt, d.max_attempts, nullif(d.fence, 0),
       nullif(d.worker, @schema@.nobody()), d.run_at, d.created_at, nullif(d.claimed_at, '-infinity'), null, d.died_at,
       d.payload, d.headers, null, d.error
  from @schema@.dead_job d where not d.blocking;

create or replace view @schema@.attempts as
select a.job_id, a.attempt, a.outcome, a.error, a.fence, a.worker, a.claimed_at, a.ended_at from @schema@.attempt a;

create or replace view @schema@.dead_jobs as
select d.id, d.queue, d.kind, d.tenant, d.ordering_key, d.blocking, d.attempt, d.max_attempts, d.fence, d.error, d.died_at, d.created_at,
       d.payload, d.headers
  from @schema@.dead_job d;

create or replace view @schema@.queues as
select q.name, q.on_dead, q.backoff_base, q.backoff_factor, q.backoff_cap from @schema@.queue q;

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
