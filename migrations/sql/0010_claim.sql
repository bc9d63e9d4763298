-- replaceable
-- Claims.

-- claim takes up to max jobs of one queue and the kinds asked for: names, or
-- patterns that end in *, without those of except_kinds that are closer. Only
-- heads and keyless jobs are in the ready line, and a lane has one head, so it
-- never takes two of a lane. Candidates are fixed and locked first; nothing
-- here waits for a row or a lock. What is paused is not taken; jobs of a paused
-- tenant or key that it meets are parked: parked counts them, and if it is not 0,
-- there may be more that can be had.
--
-- jobs are [{id, fence, kind, ...}]. due_at is when the next job of any queue
-- falls due; lease_end the soonest lease end seen; look_again how long a lease
-- not seen lasts at least; more, if fewer than max were taken, that one was
-- ready all the same; stuck are sessions that hold a run lock for longer than a
-- lease past its end.
drop function if exists @schema@.claim(uuid, text, text[], integer, interval);
drop function if exists @schema@.claim(uuid, text, text[], integer, interval, text[]);

create or replace function @schema@.claim(worker uuid, queue text, kinds text[], max integer, lease interval,
  except_kinds text[] default '{}',
  out jobs json, out looked_at timestamptz, out due_at timestamptz, out lease_end timestamptz,
  out look_again interval, out more boolean, out stuck json, out parked integer)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
#variable_conflict use_column
declare
  wanted   text[];
  ids      bigint[];
  suspects bigint[];
  alive    bigint[];
  owned    bigint[]; -- those of a tenant or a lane
  barred   bigint[];
  bound    bigint;   -- of the length of all, as text
begin
  perform @schema@.require_read_committed();
  perform @schema@.check_claim(claim.worker, claim.max, claim.lease);
  if claim.queue is null or claim.kinds is null then -- else it would look for nothing, for ever
    perform @schema@.refuse(case when claim.queue is null then 'queue' else 'kinds' end, 'queue and kinds must be given');
  end if;
  perform @schema@.require_home();
  looked_at := clock_timestamp();
  parked := 0;
  wanted := @schema@.ready_kinds(claim.queue, claim.kinds, claim.except_kinds);
  if exists (select from @schema@.pause p) then
    wanted := @schema@.unpaused_kinds(claim.queue, wanted);
  end if;
  select array_agg(c.id) filter (where not c.suspect), array_agg(c.id) filter (where c.suspect),
         array_agg(c.id) filter (where not c.suspect and (c.tenant <> '' or c.ordering_key is not null)), sum(c.bound)
    into ids, suspects, owned, bound
    from (
      select r.* from unnest(wanted) k(kind)
       cross join lateral (
         select j.id, j.priority, j.turn, j.tenant, j.ordering_key, j.worker <> @schema@.nobody() as suspect,
                @schema@.text_bound(j.payload, j.headers) as bound
           from @schema@.job j
          where j.queue = claim.queue and j.kind = k.kind and j.stage = 'r' and j.lease_until <= claim.looked_at and not j.settled
          order by j.priority desc, j.turn
          limit claim.max for update skip locked) r
       order by r.priority desc, r.turn limit claim.max) c;
  if suspects is not null then
    -- What is found lost here is claimed here, so it comes first in the answer.
    select r.alive, r.stuck into alive, stuck from @schema@.reclaim(@schema@.fitting(suspects[:200], bound)) r;
    ids := alive || ids;
    owned := owned || alive;
  end if;
  if owned <> '{}' and exists (select from @schema@.pause p where p.scope in ('tenant', 'key')) then
    barred := @schema@.parkable(owned);
    if barred <> '{}' then
      ids := array(select u.id from unnest(ids) u(id) where u.id <> all (barred));
      parked := @schema@.park(barred) + @schema@.park_ahead(claim.queue, wanted);
    end if;
  end if;
  ids := @schema@.with_notes(@schema@.fitting(ids, bound));
  jobs := @schema@.grant_claims(claim.worker, ids, claim.lease);
  select f.due_at, f.lease_end, f.more into due_at, lease_end, more
    from @schema@.next_look(claim.queue, wanted, claim.looked_at, coalesce(cardinality(ids), 0) < claim.max) f;
  look_again := @schema@.shortest_lease();
end $lockstep$;

create or replace function @schema@.check_claim(worker uuid, max integer, lease interval) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform @schema@.check_worker(worker);
  if max is null or max not between 1 and 1000 then
    perform @schema@.refuse('max', format('max is %s; it must be between 1 and 1000', max));
  elsif lease is null or lease not between '1 second' and '1 day' then
    perform @schema@.refuse('lease', format('lease is %s; it must be between 1 second and 1 day', lease));
  end if;
end $lockstep$;

-- check_worker refuses the worker that nobody is: it stands in the row of every
-- job that is not claimed, so its reports would count there.
create or replace function @schema@.check_worker(worker uuid) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  if worker is null or worker = @schema@.nobody() then
    perform @schema@.refuse('worker', 'worker must be a uuid that is unique per process start');
  end if;
end $lockstep$;

-- refuse raises LS002 for an argument.
create or replace function @schema@.refuse(field text, problem text, place text default null) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  raise exception using errcode = 'LS002', message = problem, column = field, detail = coalesce(place, 'argument ' || field);
end $lockstep$;

-- json_time is a time that every reader of JSON takes: in the years 1 to 9999.
create or replace function @schema@.json_time(moment timestamptz) returns timestamptz
language sql immutable parallel safe
return least(greatest(moment, '0001-01-01 00:00:00+00'), '9999-12-31 23:59:59.999999+00');

-- grant_claims makes jobs, whose rows the caller has locked and which have what
-- was noted for them, the worker's: a new fence, a lease, an attempt. A job that
-- another worker held until its lease ended has been lost once more. The times of
-- all must be readable: the worker reads one answer, and would run none. In UTC,
-- since zones had offsets with seconds once.
create or replace function @schema@.grant_claims(worker uuid, ids bigint[], lease interval) returns json
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $lockstep$
#variable_conflict use_column
declare
  moment constant timestamptz := clock_timestamp();
  jobs json;
begin
  if ids is null or ids = '{}' then
    return null;
  end if;
  if current_setting('synchronous_commit') = 'off' then
    -- An unflushed sequence could hand a fence out twice.
    perform set_config('synchronous_commit', 'local', true);
  end if;
  with claimed as (
    update @schema@.job j
       set lease_until = moment + grant_claims.lease, lease = grant_claims.lease, claimed_at = moment, held_since = '-infinity',
           fence = @schema@.next_fence(), attempt = least(j.attempt, 2147483646) + 1,
           lost = j.lost + (j.worker <> @schema@.nobody())::integer, worker = grant_claims.worker
     where j.id = any (ids)
    returning j.id, j.fence, j.queue, j.kind, j.tenant, coalesce(j.ordering_key, '') as ordering_key, j.priority,
              j.attempt, j.max_attempts, j.payload, j.headers, @schema@.json_time(j.created_at) as created_at,
              @schema@.json_time(j.run_at) as run_at, j.claimed_at, j.turn)
  select json_agg(c order by c.priority desc, c.turn) into jobs from claimed c;
  return jobs;
end $lockstep$;

-- reclaim decides about jobs whose lease has ended without a word from their
-- worker; their rows are locked by the caller. alive are those to claim now.
--
-- A run lock that is refused means that a transactional handler still lives:
-- its claim stands, and the lease moves on. Else the attempt is lost. The
-- first loss costs nothing; from the second on the job goes into backoff, so
-- that what kills workers does not come back as the same batch.
create or replace function @schema@.reclaim(suspects bigint[], out alive bigint[], out stuck json)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  job     record;
  moment  constant timestamptz := clock_timestamp();
  held    bigint[] := '{}';
  aside   bigint[] := '{}';
  ended   bigint[] := '{}';
  outcomes text[] := '{}';
  pending bigint[];
begin
  alive := '{}';
  for job in
    select j.id, j.queue, j.tenant, j.ordering_key, j.attempt, j.max_attempts, j.lost, j.cancel_requested
      from @schema@.job j where j.id = any (suspects)
  loop
    if not pg_try_advisory_xact_lock(@schema@.run_lock(job.queue, job.tenant, job.ordering_key, job.id)) then
      held := held || job.id;
    elsif job.cancel_requested or job.attempt >= job.max_attempts then
      ended := ended || job.id;
      outcomes := outcomes || case when job.cancel_requested then 'cancelled' else 'dead' end;
    elsif job.lost = 0 then
      alive := alive || job.id;
    else
      aside := aside || job.id;
    end if;
  end loop;
  insert into @schema@.attempt (job_id, fence, attempt, worker, claimed_at, ended_at, outcome, error)
  select j.id, j.fence, j.attempt, j.worker, j.claimed_at, moment, 'lost', 'worker lost: its lease ended at ' || j.lease_until
    from @schema@.job j where j.id = any (suspects) and j.id <> all (held) and j.worker <> @schema@.nobody();
  if aside <> '{}' then
    perform @schema@.set_aside(aside, array_fill(null::interval, array[cardinality(aside)]), reported => false);
  end if;
  if ended <> '{}' then
    select l.pending into pending
      from @schema@.leave(ended, outcomes, array_fill(null::jsonb, array[cardinality(ended)]),
                          array_fill('worker lost'::text, array[cardinality(ended)])) l;
    -- What is settled is not the late worker's: its own report is lost.
    update @schema@.job j set worker = @schema@.nobody() where j.id = any (pending);
  end if;
  if held <> '{}' then
    stuck := @schema@.hold_on(held);
  end if;
end $lockstep$;

-- hold_on keeps the claims of transactional handlers that still live, and
-- names the sessions of those that do so for longer than another lease.
create or replace function @schema@.hold_on(ids bigint[]) returns json
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
declare
  moment constant timestamptz := clock_timestamp();
begin
  update @schema@.job j
     set held_since = case when j.held_since = '-infinity' then moment else j.held_since end,
         lease_until = greatest(moment + '100 ms', least(moment + '2 s',
           case when j.held_since = '-infinity' then moment else j.held_since end + j.lease))
   where j.id = any (ids);
  return (
    select json_agg(json_build_object('job_id', j.id, 'fence', j.fence, 'pid', a.pid, 'role', coalesce(a.usename, ''), 'backend_start', a.backend_start))
      from @schema@.job j, lateral @schema@.run_holder(j.queue, j.tenant, j.ordering_key, j.id) h
      join pg_stat_activity a on a.pid = h
     where j.id = any (ids) and j.held_since + j.lease <= moment);
end $lockstep$;

-- run_holder is the session that holds a job's run lock.
create or replace function @schema@.run_holder(queue text, tenant text, ordering_key text, id bigint) returns setof integer
language sql
begin atomic
  select l.pid from pg_catalog.pg_locks l
   where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.pid is not null
     and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database())
     and ((l.classid::bigint << 32) | l.objid::bigint) = @schema@.run_lock(queue, tenant, ordering_key, id);
end;

-- next_look tells a worker when to look again. Leases are only looked for by a
-- worker that got less than it asked for, among the first thousand jobs of
-- each kind; a lease not seen is what look_again is for. A settled head whose
-- worker has gone counts as due.
create or replace function @schema@.next_look(queue text, kinds text[], moment timestamptz, idle boolean,
  out due_at timestamptz, out lease_end timestamptz, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
#variable_conflict use_column
begin
  due_at := (select j.run_at from @schema@.job j where j.stage in ('s', 'b') and j.hold = '-' order by j.run_at, j.id limit 1);
  if exists (select 1 from @schema@.job j where j.settled and j.lease_until <= next_look.moment)
     or exists (select 1 from @schema@.dedupe_note n where n.turn > 0 and not n.missed) then
    due_at := least(due_at, next_look.moment);
  end if;
  more := false;
  if idle then
    select min(r.lease_until) filter (where r.lease_until > next_look.moment),
           coalesce(bool_or(r.lease_until <= next_look.moment and not r.settled), false)
      into lease_end, more
      from unnest(next_look.kinds) k(kind)
     cross join lateral (
       select j.lease_until, j.settled from @schema@.job j
        where j.queue = next_look.queue and j.kind = k.kind and j.stage = 'r'
        order by j.priority desc, j.turn limit 1000) r;
  end if;
end $lockstep$;
